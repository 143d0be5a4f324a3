import type { RequestHandler, Router } from "express";
import { answerOptions, refuseMethod } from "./methods.js";

const ALLOW = "GET, HEAD, OPTIONS";

/** A path beside `/v1`, which is only read: GET and HEAD go to the handler, any other method is refused (405). */
export function serveAt(router: Router, path: string, handler: RequestHandler): void {
  router.route(path).get(handler).options(answerOptions(ALLOW)).all(refuseMethod(ALLOW));
}
