import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { WorkerLog } from "./worker.js";

/** How often a worker tells that it lives, and looks for jobs whose worker does not. */
const BEAT_MS = 5_000;
/** A worker that was not heard of for so long is dead: its jobs begin anew, 27 seconds after its end at the latest. */
const DEAD_AFTER_SECONDS = 20;
/** A beat without an answer must not delay the next one. */
const ANSWER_MS = 4_000;
/**
 * Beats in time before a worker judges others: after an outage of the database none has been heard of, and all that
 * live are heard again within two beats.
 */
const STEADY_BEATS = 3;

/** Who holds jobs here, by the name under which graphile-worker locks them, and the ids of those it is working on. */
export interface Holder {
  name: string;
  jobs(): string[];
}

const BEAT = `
  INSERT INTO workers (id, seen_at) VALUES ($1, now()) ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`;

// An attempt that nobody lived to end is not counted. Our own are jobs that we were given without hearing of it, for
// the connection was lost over the answer. A worker's table row outlives it a day, for those who look into it.
const TAKE_OVER = `
  WITH freed AS (
    UPDATE graphile_worker._private_jobs j
    SET locked_at = NULL, locked_by = NULL, attempts = greatest(j.attempts - 1, 0), updated_at = now()
    WHERE j.locked_at < now() - make_interval(secs => $3)
      AND CASE WHEN j.locked_by = $1 THEN j.id <> ALL ($2::bigint[]) ELSE NOT EXISTS (
        SELECT FROM workers w WHERE w.id = j.locked_by AND w.seen_at > now() - make_interval(secs => $3)) END
    RETURNING j.id
  ), forgotten AS (DELETE FROM workers WHERE seen_at < now() - interval '1 day')
  SELECT id::text FROM freed`;

/**
 * Keeps the database told that `holder` lives, and frees the jobs of those that no longer do, which graphile-worker
 * itself would hold for four hours. By a table rather than by locks of a session: a lost connection is no death, and
 * a machine that lost its power leaves a session behind.
 */
export function startHeartbeat(
  pool: pg.Pool,
  holder: () => Holder,
  log: WorkerLog,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const ask = (text: string, values: unknown[]) =>
    pool.query<{ id: string }>({ text, values, query_timeout: ANSWER_MS } as pg.QueryConfig);
  let steady = 0;
  let unheard = false;
  const beat = async (): Promise<void> => {
    const { name, jobs } = holder();
    await ask(BEAT, [name]);
    unheard = false;
    steady += 1;
    if (steady < STEADY_BEATS) return;
    const { rows } = await ask(TAKE_OVER, [name, jobs(), DEAD_AFTER_SECONDS]);
    if (rows.length > 0) log.warn({ jobs: rows.map(({ id }) => id) }, "took over jobs whose worker is gone");
  };
  const run = async () => {
    let last = performance.now();
    while (!stopping.signal.aborted) {
      const now = performance.now();
      if (now - last > 2 * BEAT_MS) steady = 0;
      last = now;
      await beat().catch((error: Error) => {
        steady = 0;
        if (!unheard) log.warn({ reason: error.message }, "the worker cannot tell that it lives");
        unheard = true;
      });
      const pause = Math.max(0, BEAT_MS - (performance.now() - now));
      await sleep(pause, undefined, { signal: stopping.signal }).catch(() => {});
    }
  };
  const running = run();
  return {
    /** Tells that the worker has gone, its jobs done. */
    async stop() {
      stopping.abort();
      await running;
      await ask("DELETE FROM workers WHERE id = $1", [holder().name]).catch(() => {});
    },
  };
}
