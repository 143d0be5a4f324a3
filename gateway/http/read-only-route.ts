import type { RequestHandler, Router } from "express";
import { ServiceError } from "../../server/errors.js";

const ALLOW = "GET, HEAD, OPTIONS";

/** A path beside `/v1`, which is only read: GET and HEAD go to the handler, any other method is told so (405). */
export function serveAt(router: Router, path: string, handler: RequestHandler): void {
  router
    .route(path)
    .get(handler)
    .all((req, res) => {
      res.setHeader("Allow", ALLOW);
      if (req.method !== "OPTIONS") {
        throw new ServiceError("RESOURCE_NOT_FOUND", {
          status: 405,
          message: "This path does not take this method.",
        });
      }
      res.status(204).end();
    });
}
