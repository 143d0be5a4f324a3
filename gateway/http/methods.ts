import type { RequestHandler, Router } from "express";
import { ServiceError } from "../../server/errors.js";

/** Answers OPTIONS with the methods of a path. */
export const answerOptions =
  (allow: string): RequestHandler =>
  (_req, res) => {
    res.setHeader("Allow", allow);
    res.status(204).end();
  };

/** Rejects a method that a known path does not support. */
export const rejectMethod =
  (allow: string): RequestHandler =>
  (_req, res) => {
    res.setHeader("Allow", allow);
    throw new ServiceError("RESOURCE_NOT_FOUND", {
      status: 405,
      message: "This path does not support this method: see the Allow header.",
    });
  };

const READ_ONLY = "GET, HEAD, OPTIONS";

/** Adds a read-only path outside `/v1`: GET and HEAD go to the handler, other methods get 405. */
export function serveAt(router: Router, path: string | RegExp, handler: RequestHandler): void {
  router.route(path).get(handler).options(answerOptions(READ_ONLY)).all(rejectMethod(READ_ONLY));
}
