import { randomUUID } from "node:crypto";
import type { RequestHandler } from "express";
import type { Logger } from "pino";

/** Gives each request an id, sent in `X-Correlation-Id`, and logs one line when the request ends. */
export function correlate(log: Logger): RequestHandler {
  return (req, res, next) => {
    const { locals } = res;
    const began = performance.now();
    locals.correlationId = randomUUID();
    res.setHeader("X-Correlation-Id", locals.correlationId);
    res.once("close", () => {
      log.info(
        {
          correlationId: locals.correlationId,
          keyId: locals.principal?.keyId,
          userId: locals.actor?.kind === "user" ? locals.actor.userId : undefined,
          method: req.method,
          // Never the target itself: it may contain secrets.
          operation: locals.operation?.name ?? locals.called,
          status: res.writableFinished ? res.statusCode : "aborted",
          ms: Math.round((performance.now() - began) * 100) / 100,
        },
        "request",
      );
    });
    next();
  };
}
