import { auditBySystemSql } from "../audit-trail/audit.js";
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

/** Forms per batch: their creates, keys, emails and deliveries are deleted with them. */
const BATCH_FORMS = 50;
/** A form has a row of `scoped_forms` per member of its listing. A batch ends with the form that reaches this number. */
const BATCH_SCOPED_FORMS = 2_000;

/** SQL: the form's check-out; the latest time that is known if it has none. */
const END = "coalesce(f.check_out_date, greatest(f.check_in_date, f.created_at))";

/** SQL: a worker is sending one of the form's messages, or will. A scalar subquery, because EXISTS may hash the whole table. */
const isOpen = (table: "emails" | "webhook_deliveries") =>
  `coalesce((SELECT true FROM ${table} n WHERE n.form_id = f.id AND n.ended_at IS NULL LIMIT 1), false)`;

/**
 * SQL of a batch of forms past their retention. Leaves to the next run what a request or a worker is using: forms that are locked,
 * whose listing is locked, or whose messages wait. So a batch waits for nobody, and delays a request by milliseconds at most.
 */
const oldForms = (position: "check_in_date" | "created_at", condition: string) => `
    SELECT ctid, position, coalesce(sum(members) OVER (
      ORDER BY position, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < ${BATCH_SCOPED_FORMS} AS is_due
    FROM (
      SELECT f.ctid, f.id, f.${position} AS position,
        (SELECT count(*) FROM memberships m WHERE m.listing_id = f.listing_id) AS members
      FROM forms f JOIN listings l ON l.id = f.listing_id
      WHERE ${NO_OTHER_BATCH} AND ${condition} AND f.${position} >= $2::timestamptz AND ${END} < ${LIMIT}
        AND NOT ${isOpen("emails")} AND NOT ${isOpen("webhook_deliveries")}
      ORDER BY f.${position} LIMIT ${BATCH_FORMS} FOR SHARE OF l SKIP LOCKED FOR UPDATE OF f SKIP LOCKED
    ) AS locked`;

const ALL_FORMS: Pick<Retention, "table" | "days" | "start" | "also"> = {
  table: "forms",
  days: "FORM_RETENTION_DAYS",
  start: "-infinity",
  also: `, audited AS (${auditBySystemSql(
    "form.deleted",
    `SELECT id, (SELECT gen_random_uuid()), jsonb_build_object('reason', 'retention', 'listingId', listing_id) FROM gone`,
  )})`,
};

// In the order of check-in, which has an index: a check-out that is due is later than its check-in.
export const FORM_RETENTION: Retention = {
  ...ALL_FORMS,
  statement: "delete-old-forms",
  batch: oldForms("check_in_date", `f.check_in_date < ${LIMIT}`),
};

/** The API creates no form without dates. */
export const UNDATED_FORM_RETENTION: Retention = {
  ...ALL_FORMS,
  statement: "delete-old-undated-forms",
  batch: oldForms("created_at", "f.check_in_date IS NULL"),
};
