import { type RequestHandler, Router } from "express";
import { serveAt } from "./methods.js";
import type { Readiness } from "./readiness.js";
import { sendJson } from "./request.js";

/** Shutdown state of a process. */
export interface Lifecycle {
  /** `unready`: /readyz returns 503, but new requests are served. `draining`: new requests are rejected. */
  stage: "serving" | "unready" | "draining";
}

/**
 * `GET /livez`: the process responds. `GET /readyz`: it is not shutting down, the database responds, and its schema is not
 * older than this version; otherwise 503 with the `reason`. A process that cannot send notifications is ready too, and gives
 * the reason in `notifications`.
 */
export function health(readiness: Readiness, lifecycle: Lifecycle, notificationsWaitReason?: string): RequestHandler {
  const ready = {
    status: "ok",
    ...(notificationsWaitReason && { notifications: `waiting: ${notificationsWaitReason}` }),
  };
  const router = Router({ caseSensitive: true, strict: true });
  serveAt(router, "/livez", (_req, res) => {
    sendJson(res, JSON.stringify({ status: "ok" }));
  });
  serveAt(router, "/readyz", async (_req, res) => {
    const problem = lifecycle.stage !== "serving" ? "draining" : await readiness.problem();
    if (problem) res.status(503).setHeader("Retry-After", "1");
    sendJson(res, JSON.stringify(problem ? { status: "unavailable", reason: problem } : ready));
  });
  return router;
}
