import { type RequestHandler, Router } from "express";
import type { Readiness } from "../runtime/readiness.js";
import { serveAt } from "./methods.js";
import { sendJson } from "./request.js";

/** Shutdown state of a process. */
export interface Lifecycle {
  /** `unready`: /readyz returns 503, but new requests are served. `draining`: new requests are rejected. */
  stage: "serving" | "unready" | "draining";
}

/**
 * `GET /livez`: the process responds. `GET /readyz`: it is not shutting down, the database responds, and its schema is not
 * older than this version; otherwise 503 with the `reason`. A process that cannot write, or send emails, is ready too, because it
 * serves reads, and gives the reason in `writes` or `emails`.
 */
export function health(readiness: Readiness, lifecycle: Lifecycle, emailsWaitReason?: string): RequestHandler {
  const router = Router({ caseSensitive: true, strict: true });
  serveAt(router, "/livez", (_req, res) => {
    sendJson(res, JSON.stringify({ status: "ok" }));
  });
  serveAt(router, "/readyz", async (_req, res) => {
    const { problem, writeProblem } =
      lifecycle.stage === "serving" ? await readiness.examine() : { problem: "draining" };
    if (problem) res.status(503).setHeader("Retry-After", "1");
    const ready = {
      status: "ok",
      ...(writeProblem && { writes: `failing: ${writeProblem}` }),
      ...(emailsWaitReason && { emails: `waiting: ${emailsWaitReason}` }),
    };
    sendJson(res, JSON.stringify(problem ? { status: "unavailable", reason: problem } : ready));
  });
  return router;
}
