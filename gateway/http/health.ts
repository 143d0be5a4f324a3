import { type RequestHandler, Router } from "express";
import { pendingMigrations } from "../../prisma/migrate.js";
import type { Db } from "../../server/db.js";
import { waitAtMost } from "../../server/timeout.js";
import { serveAt } from "./read-only-route.js";
import { sendJson } from "./request.js";

/** How far a process is with stopping. */
export interface Lifecycle {
  /** `leaving`: about to stop; /readyz reports it, and new requests are served. `draining`: new requests are refused. */
  stage: "serving" | "leaving" | "draining";
}

/**
 * `GET /livez` (the process answers) and `GET /readyz` (it can serve: not draining, database there and current, which
 * it must tell within `patience` ms). A process can serve while its notifications wait, so /readyz is 200 then too, and
 * has the reason in `notifications`.
 */
export function health(
  db: Db,
  lifecycle: Lifecycle,
  patience: number,
  notificationsWait?: string,
): RequestHandler {
  const ready = {
    status: "ok",
    ...(notificationsWait && { notifications: `waiting: ${notificationsWait}` }),
  };
  const router = Router({ caseSensitive: true, strict: true });
  serveAt(router, "/livez", (_req, res) => {
    sendJson(res, JSON.stringify({ status: "ok" }));
  });
  serveAt(router, "/readyz", async (_req, res) => {
    const problem = lifecycle.stage !== "serving" ? "draining" : await databaseProblem(db, patience);
    if (problem) res.status(503).setHeader("Retry-After", "1");
    sendJson(res, JSON.stringify(problem ? { status: "unavailable", reason: problem } : ready));
  });
  return router;
}

const OUT_OF_REACH = "the database is out of reach";

async function databaseProblem(db: Db, patience: number): Promise<string | undefined> {
  let problem: string | undefined = OUT_OF_REACH;
  const check = pendingMigrations(db.pool).then((pending) => {
    problem = pending.length > 0 ? "migrations are pending" : undefined;
  });
  await waitAtMost(patience / 1000, check).catch(() => {});
  return problem;
}
