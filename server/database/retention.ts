import { RETENTION } from "../../prisma/advisory-locks.js";

/** Tables whose rows the worker deletes some time after their use. */
export const RETENTION_TABLES = ["audit_entries", "emails", "webhook_deliveries", "idempotency_keys", "forms"] as const;

/** Rows per batch: few enough to be read at random positions of a slow disk within the statement timeout. */
export const BATCH_ROWS = 500;

/** SQL condition: no other process runs a batch. Without it, the first runs of many workers would come at the same time. */
export const NO_OTHER_BATCH = `(SELECT pg_try_advisory_xact_lock(${RETENTION}))`;
/** SQL: rows from before this time are past their retention. */
export const LIMIT = "now() - make_interval(days => $1::int)";

/** What is deleted, and when. The table's folder has it. */
export interface Retention {
  table: (typeof RETENTION_TABLES)[number];
  /** Names the statement. */
  statement: string;
  /** A setting, or a number of days that is the same for everybody. */
  days:
    | "AUDIT_RETENTION_DAYS"
    | "EMAIL_RETENTION_DAYS"
    | "FORM_RETENTION_DAYS"
    | "IDEMPOTENCY_KEY_RETENTION_DAYS"
    | number;
  /** Position before all rows. */
  start: string;
  /** Reads a batch from the position $2 on: `ctid`, `position`, and whether the row `is_due`. */
  batch: string;
  /** Further CTEs, over the deleted rows `gone`. */
  also?: string;
}
