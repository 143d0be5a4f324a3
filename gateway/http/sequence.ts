import type { RequestHandler } from "express";

/**
 * Handlers as one, each after the one before. As Express' router does it, errors and rejections included, but without
 * matching a path for each of them, which costs more than most of them do.
 */
export const sequence =
  (handlers: RequestHandler[]): RequestHandler =>
  (req, res, done) => {
    const run = (index: number): void => {
      const handler = handlers[index];
      if (!handler) {
        done();
        return;
      }
      try {
        const result: unknown = handler(req, res, (error?: unknown) =>
          error ? done(error) : run(index + 1),
        );
        if (result instanceof Promise) result.catch((error: unknown) => done(error ?? new Error("rejected")));
      } catch (error) {
        done(error);
      }
    };
    run(0);
  };
