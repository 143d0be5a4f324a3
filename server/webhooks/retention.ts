import { BATCH_ROWS, LIMIT, NO_OTHER_BATCH, type Retention } from "../database/retention.js";

/** Those that were sent are many, and of use only while a receiver looks for them. */
export const SENT_RETENTION: Retention = {
  table: "webhook_deliveries",
  statement: "delete-old-sent-deliveries",
  days: 7,
  start: "-infinity",
  batch: endedDeliveries("state = 'sent'"),
};

export const UNSENT_RETENTION: Retention = {
  table: "webhook_deliveries",
  statement: "delete-old-unsent-deliveries",
  days: 30,
  start: "-infinity",
  batch: endedDeliveries("state <> 'sent'"),
};

function endedDeliveries(condition: string): string {
  return `
    SELECT ctid, ended_at AS position, true AS is_due FROM webhook_deliveries
    WHERE ${NO_OTHER_BATCH} AND ${condition} AND ended_at < ${LIMIT} AND ended_at >= $2::timestamptz
    ORDER BY ended_at LIMIT ${BATCH_ROWS} FOR UPDATE SKIP LOCKED`;
}
