import { setTimeout as sleep } from "node:timers/promises";
import { RETENTION } from "../prisma/advisory-locks.js";
import type { Log, Services } from "./access/context.js";
import { countSql, type RETENTION_TABLES } from "./background/activity.js";

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
  setting: "AUDIT_RETENTION_DAYS" | "NOTIFICATION_RETENTION_DAYS" | "IDEMPOTENCY_KEY_RETENTION_DAYS";
  /** Position before all rows. */
  start: string;
  /** Reads a batch from the position $2 on: `ctid`, `position`, and whether the row `is_due`. */
  batch: string;
}

// As in the index notifications_ended_idx. States that a later version adds count as ended.
const HAS_ENDED = "n.state NOT IN ('waiting', 'running', 'retrying')";
const LAST_ACTIVITY = "greatest(n.created_at, n.heartbeat_at, n.sent_at)";

/** What is deleted, and when. */
const RETENTIONS: Record<Table, Retention> = {
  audit_entries: {
    setting: "AUDIT_RETENTION_DAYS",
    start: "0",
    // The oldest by id, because ids are issued in the order of time: an index on the time would cost each create more. If the
    // clock was set back, a batch of younger entries may come first: older ones then wait until those are due.
    batch: `
      SELECT ctid, id AS position, at < ${LIMIT} AS is_due FROM audit_entries
      WHERE id > $2::bigint AND ${NO_OTHER_BATCH}
      ORDER BY id LIMIT ${BATCH_ROWS}`,
  },
  notifications: {
    setting: "NOTIFICATION_RETENTION_DAYS",
    start: "-infinity",
    // One that was not sent stays visible while the stay is not over: it has no time of its end, and an operator may retry it.
    // A retry locks its row, so that it is skipped, or no longer ended. A scalar subquery, because EXISTS may hash all forms.
    batch: `
      SELECT n.ctid, ${LAST_ACTIVITY} AS position, true AS is_due FROM notifications n
      WHERE ${HAS_ENDED} AND ${NO_OTHER_BATCH} AND ${LAST_ACTIVITY} < ${LIMIT} AND ${LAST_ACTIVITY} >= $2::timestamptz
        AND (n.state = 'sent' OR n.event_id IS NOT NULL
          OR coalesce((SELECT f.check_out_date FROM forms f WHERE f.id = n.form_id), '-infinity') < ${LIMIT})
      ORDER BY ${LAST_ACTIVITY} LIMIT ${BATCH_ROWS} FOR UPDATE OF n SKIP LOCKED`,
  },
  idempotency_keys: {
    setting: "IDEMPOTENCY_KEY_RETENTION_DAYS",
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
  ), counted AS (${countSql(`'deleted.${table}'`, "gone")})
  SELECT (SELECT count(*) FROM gone)::int AS rows, max(position)::text AS last FROM batch`;

/**
 * Deletes audit entries, ended notifications and Idempotency-Keys past their retention, in batches. If another worker is at
 * it, the rest is left to that worker.
 */
export async function deleteOldRows(
  { db, settings }: Pick<Services, "db" | "settings">,
  log: Pick<Log, "info">,
  signal: AbortSignal,
): Promise<void> {
  for (const [table, { setting, start }] of Object.entries(RETENTIONS)) {
    let total = 0;
    // Each batch starts where the one before ended: otherwise it would read all rows deleted so far again, if an open
    // transaction (such as a backup) keeps them.
    for (let from = start; settings[setting] > 0 && !signal.aborted; ) {
      const began = performance.now();
      const sql = deleteBatch(table as Table);
      const values = [settings[setting], from];
      const [batch] = await db.query<{ rows: number; last: string | null }>(`delete-old-${table}`, sql, values);
      if (!batch?.rows) break;
      total += batch.rows;
      from = batch.last ?? from;
      // Rejects when `signal` aborts.
      await sleep((performance.now() - began) * PAUSE_FACTOR, undefined, { signal }).catch(() => {});
    }
    if (total > 0) log.info({ table, rows: total }, "rows past their retention were deleted");
  }
}
