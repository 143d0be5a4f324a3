import { pendingMigrations } from "../../prisma/migrate.js";
import type { Settings } from "../../server/config.js";
import { openPool } from "../../server/database/pool.js";
import { waitAtMost } from "../../server/timeout.js";

/** Whether the database can serve this version. */
export type Readiness = ReturnType<typeof openReadiness>;

const CACHED_MS = 500;
const SCHEMA_IS_OLD = "the database schema is older than this version: run `guest-forms migrate`";

/**
 * Examines the database on a connection of its own, so that requests that use up the pool do not take the process out of the
 * load balancer. Examines it once at a time, and remembers the result for CACHED_MS, because anyone may ask.
 */
export function openReadiness(settings: Settings, timeoutMs: number) {
  const { pool, end } = openPool(settings, {
    name: "guest-forms readiness",
    max: 1,
    frozenAfterMs: timeoutMs,
  });
  let current: Promise<string | undefined> | undefined;
  const examine = async () => {
    let problem: string | undefined = "the database is unreachable";
    const check = pendingMigrations(pool).then((pending) => {
      problem = pending.length > 0 ? SCHEMA_IS_OLD : undefined;
    });
    await waitAtMost(timeoutMs / 1000, check).catch(() => {});
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
