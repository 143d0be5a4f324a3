import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";

// What graphile-worker's own functions do only for jobs that nobody holds; the package's version is pinned for this.

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Removes a job that is done, as often as it takes until the database has done so or `signal` fires: graphile-worker
 * would try once, and the job would be done again.
 */
export async function removeJob(pool: pg.Pool, id: string, signal: AbortSignal): Promise<void> {
  for (let pause = FIRST_PAUSE_MS; !signal.aborted; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    try {
      await pool.query("DELETE FROM graphile_worker._private_jobs WHERE id = $1", [id]);
      return;
    } catch {
      await sleep(pause, undefined, { signal }).catch(() => {});
    }
  }
}

/** Makes the attempt under way the job's last. */
export async function makeLastAttempt(pool: pg.Pool, id: string): Promise<void> {
  await pool.query("UPDATE graphile_worker._private_jobs SET attempts = max_attempts WHERE id = $1", [id]);
}

/** Removes the notifications of these forms, but for those being sent just now. Takes a transaction's `$executeRaw`. */
export const CANCEL_NOTIFICATIONS = `
  DELETE FROM graphile_worker._private_jobs j USING graphile_worker._private_tasks t
  WHERE t.id = j.task_id AND t.identifier = $1 AND j.payload ->> 'formId' = ANY($2::text[]) AND j.locked_at IS NULL`;
