import { setTimeout as sleep } from "node:timers/promises";
import { RETENTION } from "../prisma/advisory-locks.js";
import { countSql, type RETENTION_TABLES } from "./worker-activity.js";

// Deletes rows in batches. Each batch is one short statement, so it locks its rows for milliseconds, and a worker that is
// killed leaves each batch complete or not begun.

/** Rows per batch: few enough to be read at random positions of a slow disk within the statement timeout. */
export const BATCH_ROWS = 500;
/** Pause after a batch, in durations of the batch: a slow database gets more time. */
const PAUSE_FACTOR = 3;

/** SQL condition: no other process runs a batch. Without it, the first runs of many workers would come at the same time. */
export const NO_OTHER_BATCH = `(SELECT pg_try_advisory_xact_lock(${RETENTION}))`;

/** SQL that counts the rows of `gone` for the metrics. */
export const countDeleted = (table: (typeof RETENTION_TABLES)[number], gone: string) =>
  countSql(`'deleted.${table}'`, gone);

/** The final query of a batch that has read these rows and deleted those of `gone`. */
export const batchOf = (read: string) =>
  `SELECT (SELECT count(*) FROM gone)::int AS rows, max(position)::text AS last FROM ${read}`;

export interface Batch {
  rows: number;
  /** Position of the last row that was read. */
  last?: string | null;
}

export function oneRow([batch]: Batch[]): Batch {
  if (!batch) throw new Error("the statement counted nothing");
  return batch;
}

/**
 * Runs batches until one is empty, or `signal` aborts. Each starts at the position where the one before ended: otherwise
 * it would read all rows deleted so far again, if an open transaction (such as a backup) keeps them. Returns the number of rows.
 */
export async function runBatches(
  runBatch: (from: string) => Promise<Batch>,
  { start, signal }: { start: string; signal: AbortSignal },
): Promise<number> {
  let total = 0;
  for (let from = start; !signal.aborted; ) {
    const began = performance.now();
    const { rows, last } = await runBatch(from);
    if (rows === 0) break;
    total += rows;
    from = last ?? from;
    // Rejects when `signal` aborts.
    await sleep((performance.now() - began) * PAUSE_FACTOR, undefined, { signal }).catch(() => {});
  }
  return total;
}
