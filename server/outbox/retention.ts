import { setTimeout as sleep } from "node:timers/promises";
import { RETENTION } from "../../prisma/advisory-locks.js";
import type { Log, Services } from "../access/context.js";
import { addCounts, type RETENTION_TABLES } from "./activity.js";

/** Rows per batch: few enough to be read at random positions of a slow disk within the statement timeout. */
const BATCH_ROWS = 500;
/** Pause after a batch, in durations of the batch: a slow database gets more time. */
const PAUSE_FACTOR = 3;

/** SQL condition: no other process runs a batch. Without it, the first runs of many workers would come at the same time. */
const NO_OTHER_BATCH = `(SELECT pg_try_advisory_xact_lock(${RETENTION}))`;
/** SQL: rows from before this time are past their retention. */
const LIMIT = "now() - make_interval(days => $1::int)";

type Table = (typeof RETENTION_TABLES)[number];

interface Retention {
  /** A setting, or a number of days that is the same for everybody. */
  days: "AUDIT_RETENTION_DAYS" | "EMAIL_RETENTION_DAYS" | "IDEMPOTENCY_KEY_RETENTION_DAYS" | number;
  /** Position before all rows. */
  start: string;
  /** Reads a batch from the position $2 on: `ctid`, `position`, and whether the row `is_due`. */
  batch: string;
}

/** Days for which deliveries are kept after they ended. Sent ones are many, and of use only while a receiver looks for them. */
const DELIVERY_DAYS = 30;
const SENT_DELIVERY_DAYS = 7;

/** What is deleted, and when. */
const RETENTIONS: Record<Table, Retention> = {
  audit_entries: {
    days: "AUDIT_RETENTION_DAYS",
    start: "0",
    // The oldest by id, because ids are issued in the order of time: an index on the time would cost each create more. If the
    // clock was set back, a batch of younger entries may come first: older ones then wait until those are due.
    batch: `
      SELECT ctid, id AS position, at < ${LIMIT} AS is_due FROM audit_entries
      WHERE id > $2::bigint AND ${NO_OTHER_BATCH}
      ORDER BY id LIMIT ${BATCH_ROWS}`,
  },
  emails: {
    days: "EMAIL_RETENTION_DAYS",
    start: "-infinity",
    // One that was not sent stays visible while the stay is not over: an operator may send it again. A retry locks its row, so that
    // it is skipped, or no longer ended. A scalar subquery, because EXISTS may hash all forms.
    batch: `
      SELECT n.ctid, n.ended_at AS position, true AS is_due FROM emails n
      WHERE ${NO_OTHER_BATCH} AND n.ended_at < ${LIMIT} AND n.ended_at >= $2::timestamptz
        AND (n.state = 'sent' OR coalesce((SELECT f.check_out_date FROM forms f WHERE f.id = n.form_id), '-infinity') < ${LIMIT})
      ORDER BY n.ended_at LIMIT ${BATCH_ROWS} FOR UPDATE OF n SKIP LOCKED`,
  },
  webhook_deliveries: {
    days: SENT_DELIVERY_DAYS,
    start: "-infinity",
    batch: `
      SELECT n.ctid, n.ended_at AS position, true AS is_due FROM webhook_deliveries n
      WHERE ${NO_OTHER_BATCH} AND n.ended_at < ${LIMIT} AND n.ended_at >= $2::timestamptz
        AND (n.state = 'sent' OR n.ended_at < now() - interval '${DELIVERY_DAYS} days')
      ORDER BY n.ended_at LIMIT ${BATCH_ROWS} FOR UPDATE OF n SKIP LOCKED`,
  },
  idempotency_keys: {
    days: "IDEMPOTENCY_KEY_RETENTION_DAYS",
    start: "-infinity",
    batch: `
      SELECT ctid, retention_starts_at AS position, true AS is_due FROM idempotency_keys
      WHERE retention_starts_at < ${LIMIT} AND retention_starts_at >= $2::timestamptz AND ${NO_OTHER_BATCH}
      ORDER BY retention_starts_at LIMIT ${BATCH_ROWS} FOR UPDATE SKIP LOCKED`,
  },
};

// One short statement, so it locks its rows for milliseconds, and a worker that is killed leaves a batch complete or not begun.
const deleteBatch = (table: Table) => `
  WITH batch AS MATERIALIZED (${RETENTIONS[table].batch}), gone AS (
    DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM batch WHERE is_due)) RETURNING true
  ), counted AS (${addCounts(`SELECT 'deleted.${table}', count(*) FROM gone HAVING count(*) > 0`)})
  SELECT (SELECT count(*) FROM gone)::int AS rows, max(position)::text AS last FROM batch`;

interface Batch {
  rows: number;
  /** Null if the batch is empty. */
  last: string | null;
}

/**
 * Deletes audit entries, ended emails and deliveries, and Idempotency-Keys past their retention, in batches. If another worker is at
 * it, the rest is left to that worker.
 */
export async function deleteOldRows(
  { db, settings }: Pick<Services, "db" | "settings">,
  log: Pick<Log, "info">,
  signal: AbortSignal,
): Promise<void> {
  for (const [name, { days: limit, start }] of Object.entries(RETENTIONS)) {
    const table = name as Table;
    const days = typeof limit === "number" ? limit : settings[limit];
    let total = 0;
    // Each batch starts where the one before ended: otherwise it would read all rows deleted so far again, if an open
    // transaction (such as a backup) keeps them.
    for (let from = start; days > 0 && !signal.aborted; ) {
      const began = performance.now();
      const values = [days, from];
      const [batch] = await db.query<Batch>(`delete-old-${table}`, deleteBatch(table), values);
      if (!batch?.rows) break;
      total += batch.rows;
      from = batch.last ?? from;
      // Rejects when `signal` aborts.
      await sleep((performance.now() - began) * PAUSE_FACTOR, undefined, { signal }).catch(() => {});
    }
    if (total > 0) log.info({ table, rows: total }, "rows past their retention were deleted");
  }
}
