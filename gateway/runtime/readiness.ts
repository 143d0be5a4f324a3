import type { Logger } from "pino";
import { pendingMigrations } from "../../prisma/history.js";
import type { Settings } from "../../server/config.js";
import { openPool } from "../../server/database/pool.js";
import { assertPrimary, StandbyReached } from "../../server/database/primary.js";
import { findWriteProblem, UNANSWERED_WRITE } from "../../server/database/writes.js";
import { waitAtMost } from "../../server/timeout.js";

/** What the database can do for this version. */
export interface DatabaseState {
  /** Why it cannot serve it. */
  problem?: string | undefined;
  /** Why it cannot be written, although it can be read. */
  writeProblem?: string | undefined;
}

export type Readiness = ReturnType<typeof openReadiness>;

/** One examines reads, the other writes: a write that hangs delays no answer about reads. */
export const READINESS_CONNECTIONS = 2;

const CACHED_MS = 500;
/** Each probe of writes adds about 20 kB to the log of the database. */
const WRITES_CACHED_MS = 30_000;
const FAILING_WRITES_CACHED_MS = 5_000;
/** How long an answer waits for a probe. Less than the second that load balancers wait. */
const PROBE_WAIT_MS = 250;

const UNREACHABLE = "the database is unreachable";
const SCHEMA_IS_OLD = "the database schema is older than this version: run `guest-forms migrate`";

/**
 * Examines the database on connections of its own, so that requests that use up the pool do not take the process out of the
 * load balancer. Examines it once at a time, and remembers the result for CACHED_MS, because anyone may ask. Logs each
 * change.
 */
export function openReadiness(settings: Settings, timeoutMs: number, log: Pick<Logger, "info" | "warn" | "error">) {
  const { pool, end } = openPool(settings, {
    name: "guest-forms readiness",
    max: READINESS_CONNECTIONS,
    frozenAfterMs: timeoutMs,
  });
  let current: Promise<DatabaseState> | undefined;
  let loggedProblem: string | undefined;
  let writeProblem: string | undefined;
  let probe: Promise<void> | undefined;
  let nextProbeAt = 0;

  const examineReads = async (): Promise<string | undefined> => {
    try {
      await assertPrimary(pool);
      return (await pendingMigrations(pool)).length > 0 ? SCHEMA_IS_OLD : undefined;
    } catch (error) {
      return error instanceof StandbyReached ? error.message : UNREACHABLE;
    }
  };

  const probeWrites = async (): Promise<void> => {
    const began = performance.now();
    const found = await findWriteProblem(pool).catch(() =>
      performance.now() - began < timeoutMs ? "lost" : UNANSWERED_WRITE,
    );
    // The next examination probes again.
    if (found === "lost") return;
    if (found && found.reason !== writeProblem)
      log.error({ reason: found.reason, advice: found.advice }, "the database cannot be written");
    if (!found && writeProblem) log.info({}, "the database can be written again");
    writeProblem = found?.reason;
    nextProbeAt = performance.now() + (found ? FAILING_WRITES_CACHED_MS : WRITES_CACHED_MS);
  };

  /** Examines writes beside reads, if that is due. */
  const examineWrites = async (): Promise<void> => {
    if (!probe && performance.now() < nextProbeAt) return;
    probe ??= probeWrites().finally(() => {
      probe = undefined;
    });
    await waitAtMost(PROBE_WAIT_MS / 1000, probe);
  };

  const examine = async (): Promise<DatabaseState> => {
    let problem: string | undefined = UNREACHABLE;
    const examination = examineReads().then(async (found) => {
      problem = found;
      if (!found) await examineWrites();
    });
    await waitAtMost(timeoutMs / 1000, examination);
    if (problem && problem !== loggedProblem) log.warn({ reason: problem }, "not ready");
    if (!problem && loggedProblem) log.info({}, "ready");
    loggedProblem = problem;
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
