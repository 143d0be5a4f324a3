import { setTimeout as sleep } from "node:timers/promises";
import type { Log, Services } from "../access/context.js";
import type { Retention } from "../database/retention.js";
import { addCounts } from "./activity.js";

/** Pause after a batch, in durations of the batch: a slow database gets more time. */
const PAUSE_FACTOR = 3;

// One short statement, so it locks its rows for milliseconds, and a worker that is killed leaves a batch complete or not begun.
const deleteBatch = ({ table, batch, also = "" }: Retention) => `
  WITH batch AS MATERIALIZED (${batch}), gone AS (
    DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM batch WHERE is_due)) RETURNING *
  ), counted AS (${addCounts(`SELECT 'deleted.${table}', count(*) FROM gone HAVING count(*) > 0`)})${also}
  SELECT (SELECT count(*) FROM gone)::int AS rows, max(position) FILTER (WHERE is_due)::text AS last FROM batch`;

interface Batch {
  rows: number;
  /** Null if no row of the batch is due. */
  last: string | null;
}

/** Deletes the rows past this retention, in batches. If another worker is at it, the rest is left to that worker. */
export async function deletePast(
  retention: Retention,
  { db, settings }: Pick<Services, "db" | "settings">,
  log: Pick<Log, "info">,
  signal: AbortSignal,
): Promise<void> {
  const { table, statement, start, days: limit } = retention;
  const days = typeof limit === "number" ? limit : settings[limit];
  let total = 0;
  // Each batch starts where the one before ended: otherwise it would read all rows deleted so far again, if an open
  // transaction (such as a backup) keeps them.
  for (let from = start; days > 0 && !signal.aborted; ) {
    const began = performance.now();
    const [batch] = await db.query<Batch>(statement, deleteBatch(retention), [days, from]);
    if (!batch?.rows) break;
    total += batch.rows;
    from = batch.last ?? from;
    // Rejects when `signal` aborts.
    await sleep((performance.now() - began) * PAUSE_FACTOR, undefined, { signal }).catch(() => {});
  }
  if (total > 0) log.info({ table, rows: total }, "rows past their retention were deleted");
}
