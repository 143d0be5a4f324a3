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

interface Retention {
  table: (typeof RETENTION_TABLES)[number];
  /** Names the statement. */
  statement: string;
  /** A setting, or a number of days that is the same for everybody. */
  days: "AUDIT_RETENTION_DAYS" | "EMAIL_RETENTION_DAYS" | "IDEMPOTENCY_KEY_RETENTION_DAYS" | number;
  /** Position before all rows. */
  start: string;
  /** Reads a batch from the position $2 on: `ctid`, `position`, and whether the row `is_due`. */
  batch: string;
}

/** What is deleted, and when. Of deliveries, those that were sent are many, and of use only while a receiver looks for them. */
const RETENTIONS: Retention[] = [
  {
    table: "audit_entries",
    statement: "delete-old-audit-entries",
    days: "AUDIT_RETENTION_DAYS",
    start: "0",
    // The oldest by id, because ids are issued in the order of time: an index on the time would cost each create more. If the
    // clock was set back, a batch of younger entries may come first: older ones then wait until those are due.
    batch: `
      SELECT ctid, id AS position, at < ${LIMIT} AS is_due FROM audit_entries
      WHERE id > $2::bigint AND ${NO_OTHER_BATCH}
      ORDER BY id LIMIT ${BATCH_ROWS}`,
  },
  {
    table: "emails",
    statement: "delete-old-emails",
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
  {
    table: "webhook_deliveries",
    statement: "delete-old-sent-deliveries",
    days: 7,
    start: "-infinity",
    batch: endedDeliveries("state = 'sent'"),
  },
  {
    table: "webhook_deliveries",
    statement: "delete-old-unsent-deliveries",
    days: 30,
    start: "-infinity",
    batch: endedDeliveries("state <> 'sent'"),
  },
  {
    table: "idempotency_keys",
    statement: "delete-old-idempotency-keys",
    days: "IDEMPOTENCY_KEY_RETENTION_DAYS",
    start: "-infinity",
    batch: `
      SELECT ctid, retention_starts_at AS position, true AS is_due FROM idempotency_keys
      WHERE retention_starts_at < ${LIMIT} AND retention_starts_at >= $2::timestamptz AND ${NO_OTHER_BATCH}
      ORDER BY retention_starts_at LIMIT ${BATCH_ROWS} FOR UPDATE SKIP LOCKED`,
  },
];

function endedDeliveries(condition: string): string {
  return `
    SELECT ctid, ended_at AS position, true AS is_due FROM webhook_deliveries
    WHERE ${NO_OTHER_BATCH} AND ${condition} AND ended_at < ${LIMIT} AND ended_at >= $2::timestamptz
    ORDER BY ended_at LIMIT ${BATCH_ROWS} FOR UPDATE SKIP LOCKED`;
}

// One short statement, so it locks its rows for milliseconds, and a worker that is killed leaves a batch complete or not begun.
const deleteBatch = ({ table, batch }: Retention) => `
  WITH batch AS MATERIALIZED (${batch}), gone AS (
    DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM batch WHERE is_due)) RETURNING true
  ), counted AS (${addCounts(`SELECT 'deleted.${table}', count(*) FROM gone HAVING count(*) > 0`)})
  SELECT (SELECT count(*) FROM gone)::int AS rows, max(position)::text AS last FROM batch`;

interface Batch {
  rows: number;
  /** Null if the batch is empty. */
  last: string | null;
}

type Deps = Pick<Services, "db" | "settings">;

/**
 * Deletes audit entries, ended emails and deliveries, and Idempotency-Keys past their retention, in batches. If another worker is at
 * it, the rest is left to that worker. What fails for one of them does not keep it from the others; then rejects at the end.
 */
export async function deleteOldRows(deps: Deps, log: Pick<Log, "info">, signal: AbortSignal): Promise<void> {
  const failures: unknown[] = [];
  for (const retention of RETENTIONS)
    await deleteAll(retention, deps, log, signal).catch((error) => void failures.push(error));
  if (failures.length > 0) throw failures[0];
}

async function deleteAll(retention: Retention, { db, settings }: Deps, log: Pick<Log, "info">, signal: AbortSignal) {
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
