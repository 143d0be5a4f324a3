import { BATCH_ROWS, type Batch, batchOf, countDeleted, NO_OTHER_BATCH, oneRow } from "../batches.js";
import type { Sql } from "../db.js";

// Keys bound by a version without the column. `greatest` ignores null.
const DATE_KEYS = `
  WITH dated AS (
    UPDATE idempotency_keys k
    SET retention_starts_at = greatest((
      SELECT (c.answer ->> 'checkOutDate')::timestamptz FROM creations c WHERE c.form_id = k.form_id), now())
    WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM idempotency_keys WHERE retention_starts_at IS NULL AND ${NO_OTHER_BATCH} LIMIT ${BATCH_ROWS}))
    RETURNING true
  )
  SELECT count(*)::int AS rows FROM dated`;

/** Sets when the retention of a batch of keys starts, if a version before this one has bound them. */
export async function dateKeys(db: Sql): Promise<Batch> {
  return oneRow(await db.query<Batch>("date-keys", DATE_KEYS, []));
}

const DELETE_KEYS = `
  WITH due AS MATERIALIZED (
    SELECT ctid, retention_starts_at AS position FROM idempotency_keys
    WHERE retention_starts_at < now() - make_interval(days => $1::int) AND retention_starts_at >= $2::timestamptz
      AND ${NO_OTHER_BATCH}
    ORDER BY retention_starts_at LIMIT ${BATCH_ROWS} FOR UPDATE SKIP LOCKED
  ), gone AS (
    DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY(SELECT ctid FROM due)) RETURNING true
  ), counted AS (${countDeleted("idempotency_keys", "gone")})
  ${batchOf("due")}`;

/** Deletes a batch of keys whose retention started `days` ago, from this time on. */
export async function deleteOldKeys(db: Sql, days: number, from: string): Promise<Batch> {
  return oneRow(await db.query<Batch>("delete-old-keys", DELETE_KEYS, [days, from]));
}
