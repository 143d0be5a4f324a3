import { BATCH_ROWS, LIMIT, NO_OTHER_BATCH, type Retention } from "../database/retention.js";

export const AUDIT_RETENTION: Retention = {
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
};
