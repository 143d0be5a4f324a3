import { BATCH_ROWS, LIMIT, NO_OTHER_BATCH, type Retention } from "../database/retention.js";

export const IDEMPOTENCY_KEY_RETENTION: Retention = {
  table: "idempotency_keys",
  statement: "delete-old-idempotency-keys",
  days: "IDEMPOTENCY_KEY_RETENTION_DAYS",
  start: "-infinity",
  batch: `
    SELECT ctid, retention_starts_at AS position, true AS is_due FROM idempotency_keys
    WHERE retention_starts_at < ${LIMIT} AND retention_starts_at >= $2::timestamptz AND ${NO_OTHER_BATCH}
    ORDER BY retention_starts_at LIMIT ${BATCH_ROWS} FOR UPDATE SKIP LOCKED`,
};
