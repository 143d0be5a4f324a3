import { type RequestHandler, Router } from "express";
import { pendingMigrations } from "../../prisma/migrate.js";
import type { Db } from "../../server/db.js";
import { waitAtMost } from "../../server/timeout.js";
import { sendJson } from "./request.js";
import { serveAt } from "./serve-at.js";

/** Shutdown state of a process. */
export interface Lifecycle {
  /** `unready`: /readyz returns 503, but new requests are served. `draining`: new requests are rejected. */
  stage: "serving" | "unready" | "draining";
}

/**
 * `GET /livez`: the process responds. `GET /readyz`: it is not shutting down, the database responds within `timeoutMs`,
 * and its schema is not older than this version; otherwise 503 with the `reason`. A process that cannot send notifications
 * is ready too, and gives the reason in `notifications`.
 */
export function health(
  db: Db,
  lifecycle: Lifecycle,
  timeoutMs: number,
  notificationsWaitReason?: string,
): RequestHandler {
  const ready = {
    status: "ok",
    ...(notificationsWaitReason && { notifications: `waiting: ${notificationsWaitReason}` }),
  };
  const router = Router({ caseSensitive: true, strict: true });
  serveAt(router, "/livez", (_req, res) => {
    sendJson(res, JSON.stringify({ status: "ok" }));
  });
  serveAt(router, "/readyz", async (_req, res) => {
    const problem = lifecycle.stage !== "serving" ? "draining" : await databaseProblem(db, timeoutMs);
    if (problem) res.status(503).setHeader("Retry-After", "1");
    sendJson(res, JSON.stringify(problem ? { status: "unavailable", reason: problem } : ready));
  });
  return router;
}

const SCHEMA_IS_OLD = "the database schema is older than this version: run `guest-forms migrate`";

async function databaseProblem(db: Db, timeoutMs: number): Promise<string | undefined> {
  let problem: string | undefined = "the database is unreachable";
  const check = pendingMigrations(db.pool).then((pending) => {
    problem = pending.length > 0 ? SCHEMA_IS_OLD : undefined;
  });
  await waitAtMost(timeoutMs / 1000, check).catch(() => {});
  return problem;
}
