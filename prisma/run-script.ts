import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

export interface RunOptions {
  /** Milliseconds to keep trying while other transactions hold locks. */
  lockWaitMs: number;
  /** Called with one line per step, for humans. */
  onProgress: (line: string) => void;
}

const MIN_PAUSE_MS = 300;
const MAX_PAUSE_MS = 3_000;
const REPORT_MS = 10_000;

/**
 * Runs a transaction until it gets its locks. Each attempt waits for a lock only briefly (see `openSession`), because
 * requests queue behind it, and pauses in between so that they catch up.
 */
export async function retryLockTimeouts<Result>(
  session: pg.ClientBase,
  run: () => Promise<Result>,
  { lockWaitMs, onProgress }: RunOptions,
): Promise<Result> {
  const until = performance.now() + lockWaitMs;
  let reportAt = 0;
  for (;;) {
    try {
      return await run();
    } catch (error) {
      const now = performance.now();
      if (!isLockTimeout(error) || now > until) throw error;
      if (now > reportAt) {
        onProgress(`Waiting for a lock.${await describeOldestTransaction(session)}`);
        reportAt = now + REPORT_MS;
      }
    }
    // Jitter, so that it does not collide again with periodic work.
    await sleep(MIN_PAUSE_MS + Math.random() * (MAX_PAUSE_MS - MIN_PAUSE_MS));
  }
}

const LOCK_NOT_AVAILABLE = "55P03";

const isLockTimeout = (error: unknown) => error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE;

const OLDEST_TRANSACTION = `
  SELECT pid, application_name AS application, extract(epoch FROM clock_timestamp() - xact_start)::int AS seconds
  FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
  ORDER BY xact_start LIMIT 1`;

/**
 * Describes the transaction that has been open for longest, which probably holds the lock, as a further sentence. Empty if
 * this role sees none.
 */
async function describeOldestTransaction(session: pg.ClientBase): Promise<string> {
  const { rows } = await session.query<{ pid: number; application: string; seconds: number }>(OLDEST_TRANSACTION);
  const [oldest] = rows;
  if (!oldest) return "";
  const name = oldest.application || "unnamed";
  return ` The oldest transaction is open for ${oldest.seconds} s: process ${oldest.pid} of Postgres (${name}).`;
}

// Without comments before it. An index without a name (ON) is not one that can be found again.
const CONCURRENT_INDEX =
  /^(?:\s|--.*\n)*(CREATE|DROP)\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(?:IF (?:NOT )?EXISTS\s+)?"?((?!ON\b)\w+)/i;

/**
 * Runs a script that builds or drops an index outside a transaction, and returns true; returns false for any other. It can be
 * repeated after a crash: a valid index is kept, and an invalid one, which an interrupted build leaves behind, is dropped
 * first. The wait for locks is unlimited, because requests do not queue behind it.
 */
export async function runConcurrently(
  session: pg.ClientBase,
  sql: string,
  onProgress: RunOptions["onProgress"],
): Promise<boolean> {
  const [, action, index] = CONCURRENT_INDEX.exec(sql) ?? [];
  if (!action) return false;
  const isCreate = action.toUpperCase() === "CREATE";
  const { rows } = await session.query<{ isValid: boolean }>(
    'SELECT indisvalid AS "isValid" FROM pg_index WHERE indexrelid = to_regclass($1)',
    [`"${index}"`],
  );
  const [found] = rows;
  if (isCreate ? found?.isValid : !found) return true;
  const drop = `DROP INDEX CONCURRENTLY IF EXISTS "${index}"`;
  await session.query("SET lock_timeout = 0");
  try {
    if (isCreate) await session.query(drop);
    const oldest = await describeOldestTransaction(session);
    onProgress(`${isCreate ? "Building" : "Dropping"} the index ${index}, which waits for open transactions.${oldest}`);
    await session.query(sql).catch(async (error) => {
      if (isCreate) await session.query(drop).catch(() => {});
      throw error;
    });
  } finally {
    await session.query("RESET lock_timeout").catch(() => {});
  }
  return true;
}
