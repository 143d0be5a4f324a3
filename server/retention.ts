import {
  BATCH_ROWS,
  type Batch,
  batchOf,
  countDeleted,
  NO_OTHER_BATCH,
  oneRow,
  runBatches,
} from "./batches.js";
import type { Services } from "./context.js";
import type { Sql } from "./db.js";
import { dateKeys, deleteOldKeys } from "./forms/idempotency-key-retention.js";
import type { RETENTION_TABLES } from "./worker-activity.js";

// Reads the oldest entries by id, because ids are issued in the order of time: an index on the time would cost each create
// more. If the clock was set back, a batch of younger entries may come first: older ones then wait until those are due.
const DELETE_AUDIT_ENTRIES = `
  WITH oldest AS MATERIALIZED (
    SELECT ctid, id AS position, at FROM audit_entries WHERE id > $2::bigint AND ${NO_OTHER_BATCH} ORDER BY id LIMIT ${BATCH_ROWS}
  ), gone AS (
    DELETE FROM audit_entries
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM oldest WHERE at < now() - make_interval(days => $1::int)))
    RETURNING true
  ), counted AS (${countDeleted("audit_entries", "gone")})
  ${batchOf("oldest")}`;

async function deleteOldAuditEntries(db: Sql, days: number, from: string): Promise<Batch> {
  return oneRow(await db.query<Batch>("delete-old-audit-entries", DELETE_AUDIT_ENTRIES, [days, from]));
}

// As in the index notifications_ended_idx. States that a later version adds count as ended.
const HAS_ENDED = "n.state NOT IN ('waiting', 'running', 'retrying')";
const LAST_ACTIVITY = "greatest(n.created_at, n.heartbeat_at, n.sent_at)";

// One that was not sent stays visible while the stay is not over: it has no time of its end, and an operator may retry it.
// A retry locks its row, so that it is skipped, or no longer ended. A scalar subquery, because EXISTS may hash all forms.
const DELETE_NOTIFICATIONS = `
  WITH due AS MATERIALIZED (
    SELECT n.ctid, ${LAST_ACTIVITY} AS position FROM notifications n
    WHERE ${HAS_ENDED} AND ${NO_OTHER_BATCH}
      AND ${LAST_ACTIVITY} < now() - make_interval(days => $1::int) AND ${LAST_ACTIVITY} >= $2::timestamptz
      AND (n.state = 'sent' OR coalesce((SELECT f.check_out_date FROM forms f WHERE f.id = n.form_id), '-infinity')
        < now() - make_interval(days => $1::int))
    ORDER BY ${LAST_ACTIVITY} LIMIT ${BATCH_ROWS} FOR UPDATE OF n SKIP LOCKED
  ), gone AS (
    DELETE FROM notifications WHERE ctid = ANY (ARRAY(SELECT ctid FROM due)) RETURNING true
  ), counted AS (${countDeleted("notifications", "gone")})
  ${batchOf("due")}`;

async function deleteOldNotifications(db: Sql, days: number, from: string): Promise<Batch> {
  return oneRow(await db.query<Batch>("delete-old-notifications", DELETE_NOTIFICATIONS, [days, from]));
}

/**
 * Deletes audit entries, ended notifications and Idempotency-Keys past their retention, in batches. If another worker is at
 * it, the rest is left to that worker.
 */
export async function deleteOldRows(
  { db, settings }: Pick<Services, "db" | "settings">,
  log: { info(facts: object, message: string): void },
  signal: AbortSignal,
): Promise<void> {
  const { AUDIT_RETENTION_DAYS, NOTIFICATION_RETENTION_DAYS, IDEMPOTENCY_KEY_RETENTION_DAYS } = settings;
  const deleteFrom = async (
    table: (typeof RETENTION_TABLES)[number],
    days: number,
    start: string,
    deleteBatch: (db: Sql, days: number, from: string) => Promise<Batch>,
  ) => {
    if (days === 0) return;
    const rows = await runBatches((from) => deleteBatch(db, days, from), { start, signal });
    if (rows > 0) log.info({ table, rows }, "rows past their retention were deleted");
  };
  await deleteFrom("audit_entries", AUDIT_RETENTION_DAYS, "0", deleteOldAuditEntries);
  await deleteFrom("notifications", NOTIFICATION_RETENTION_DAYS, "-infinity", deleteOldNotifications);
  if (IDEMPOTENCY_KEY_RETENTION_DAYS > 0) await runBatches(() => dateKeys(db), { start: "", signal });
  await deleteFrom("idempotency_keys", IDEMPOTENCY_KEY_RETENTION_DAYS, "-infinity", deleteOldKeys);
}
