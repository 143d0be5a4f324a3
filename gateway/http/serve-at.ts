import type { RequestHandler, Router } from "express";
import { answerOptions, rejectMethod } from "./methods.js";

const ALLOW = "GET, HEAD, OPTIONS";

/** Adds a read-only path outside `/v1`: GET and HEAD go to the handler, other methods get 405. */
export function serveAt(router: Router, path: string, handler: RequestHandler): void {
  router.route(path).get(handler).options(answerOptions(ALLOW)).all(rejectMethod(ALLOW));
}
