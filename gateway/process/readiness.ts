import type { Logger } from "pino";
import { pendingMigrations } from "../../prisma/history.js";
import type { Settings } from "../../server/config.js";
import { openPool } from "../../server/database/pool.js";
import { assertPrimary, StandbyReached } from "../../server/database/primary.js";
import { findWriteProblem } from "../../server/database/writes.js";
import { waitAtMost } from "../../server/timeout.js";

/** What the database can do for this version. */
export interface DatabaseState {
  /** Why it cannot serve it. */
  problem?: string | undefined;
  /** Why it cannot be written, although it can be read. */
  writeProblem?: string | undefined;
}

export type Readiness = ReturnType<typeof openReadiness>;

const CACHED_MS = 500;
/** Each probe of writes adds about 70 kB to the log of the database. */
const WRITES_CACHED_MS = 10_000;
const SCHEMA_IS_OLD = "the database schema is older than this version: run `guest-forms migrate`";

/**
 * Examines the database on a connection of its own, so that requests that use up the pool do not take the process out of the
 * load balancer. Examines it once at a time, and remembers the result for CACHED_MS, because anyone may ask. Logs each
 * change.
 */
export function openReadiness(settings: Settings, timeoutMs: number, log: Pick<Logger, "info" | "warn" | "error">) {
  const { pool, end } = openPool(settings, {
    name: "guest-forms readiness",
    max: 1,
    frozenAfterMs: timeoutMs,
  });
  let current: Promise<DatabaseState> | undefined;
  let logged: DatabaseState = {};
  let writeProblem: string | undefined;
  let writesExaminedAt = Number.NEGATIVE_INFINITY;

  const examineReads = async (): Promise<string | undefined> => {
    try {
      await assertPrimary(pool);
      return (await pendingMigrations(pool)).length > 0 ? SCHEMA_IS_OLD : undefined;
    } catch (error) {
      return error instanceof StandbyReached ? error.message : UNREACHABLE;
    }
  };

  const examineWrites = async (): Promise<void> => {
    if (performance.now() - writesExaminedAt < WRITES_CACHED_MS) return;
    writesExaminedAt = performance.now();
    const found = await findWriteProblem(pool);
    writeProblem = found?.reason;
    if (found && found.reason !== logged.writeProblem)
      log.error({ reason: found.reason, advice: found.advice }, "the database cannot be written");
    if (!found && logged.writeProblem) log.info({}, "the database can be written again");
    logged = { ...logged, writeProblem };
  };

  const examine = async (): Promise<DatabaseState> => {
    let problem: string | undefined = UNREACHABLE;
    const examination = examineReads().then(async (found) => {
      problem = found;
      // A lost connection is found by the next examination.
      if (!found) await examineWrites().catch(() => {});
    });
    await waitAtMost(timeoutMs / 1000, examination);
    if (problem && problem !== logged.problem) log.warn({ reason: problem }, "not ready");
    if (!problem && logged.problem) log.info({}, "ready");
    logged = { ...logged, problem };
    setTimeout(() => {
      current = undefined;
    }, CACHED_MS).unref();
    return { problem, writeProblem };
  };

  return {
    /** Never rejects. */
    examine(): Promise<DatabaseState> {
      current ??= examine();
      return current;
    },
    close: end,
  };
}

const UNREACHABLE = "the database is unreachable";
