import { BATCH_ROWS, LIMIT, NO_OTHER_BATCH, type Retention } from "../database/retention.js";

export const EMAIL_RETENTION: Retention = {
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
};
