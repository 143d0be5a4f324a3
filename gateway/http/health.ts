import { type RequestHandler, Router } from "express";
import type { Logger } from "pino";
import { pendingMigrations } from "../../prisma/history.js";
import type { Settings } from "../../server/config.js";
import { openPool } from "../../server/database/pool.js";
import { waitAtMost } from "../../server/timeout.js";
import { serveAt } from "./methods.js";
import { sendJson } from "./request.js";

/** Shutdown state of a process. */
export interface Lifecycle {
  /** `unready`: /readyz returns 503, but new requests are served. `draining`: new requests are rejected. */
  stage: "serving" | "unready" | "draining";
}

/**
 * `GET /livez`: the process responds. `GET /readyz`: it is not shutting down, the database responds, and its schema is not
 * older than this version; otherwise 503 with the `reason`. A process that cannot send emails is ready too, and gives
 * the reason in `emails`.
 */
export function health(readiness: Readiness, lifecycle: Lifecycle, emailsWaitReason?: string): RequestHandler {
  const ready = {
    status: "ok",
    ...(emailsWaitReason && { emails: `waiting: ${emailsWaitReason}` }),
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

/** Whether the database can serve this version. */
export type Readiness = ReturnType<typeof openReadiness>;

const CACHED_MS = 500;
const SCHEMA_IS_OLD = "the database schema is older than this version: run `guest-forms migrate`";

/**
 * Examines the database on a connection of its own, so that requests that use up the pool do not take the process out of the
 * load balancer. Examines it once at a time, and remembers the result for CACHED_MS, because anyone may ask. Logs each
 * change.
 */
export function openReadiness(settings: Settings, timeoutMs: number, log: Pick<Logger, "info" | "warn">) {
  const { pool, end } = openPool(settings, {
    name: "guest-forms readiness",
    max: 1,
    frozenAfterMs: timeoutMs,
  });
  let current: Promise<string | undefined> | undefined;
  let logged: string | undefined;
  const examine = async () => {
    let problem: string | undefined = "the database is unreachable";
    const check = pendingMigrations(pool).then((pending) => {
      problem = pending.length > 0 ? SCHEMA_IS_OLD : undefined;
    });
    await waitAtMost(timeoutMs / 1000, check).catch(() => {});
    if (problem && problem !== logged) log.warn({ reason: problem }, "not ready");
    if (!problem && logged) log.info({}, "ready");
    logged = problem;
    setTimeout(() => {
      current = undefined;
    }, CACHED_MS).unref();
    return problem;
  };
  return {
    /** Why it cannot; undefined if it can. Never rejects. */
    problem() {
      current ??= examine();
      return current;
    },
    close: end,
  };
}
