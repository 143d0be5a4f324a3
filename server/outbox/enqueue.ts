import type { Sql } from "../database/db.js";
import { firstOwnerOf } from "../memberships/first-owner.js";

/** The kind of the email that asks a guest to fill in the form. */
export const INVITATION = "invitation";

/** The kind of the email that notifies the owner of a webhook endpoint that it was disabled. */
export const ENDPOINT_DISABLED = "endpoint_disabled";

/** SQL: whose turn an invitation takes: the first owner of the listing, or the listing itself if it has none. */
const tenantOf = (listingId: string) => `coalesce((SELECT u.id FROM ${firstOwnerOf(listingId)}), ${listingId})`;

const enqueue = (forms: string, createdAt: string, isUrgent: boolean) => `
  INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id, created_at, is_urgent)
  SELECT '${INVITATION}', form_id, ${tenantOf("invited.listing_id")}, check_in_date, correlation_id, ${createdAt}, ${isUrgent}
  FROM (${forms}) AS invited (form_id, listing_id, check_in_date, correlation_id)`;

/**
 * SQL that enqueues the invitations of new forms; `forms` is a query of form ids, listing ids, check-in dates and correlation
 * ids.
 */
export const enqueueInvitations = (forms: string) => enqueue(forms, "now()", false);

/** SQL that enqueues further invitations. Whatever the clock says, they are later than their form: they have a Message-ID of their own. */
export const enqueueLaterInvitations = (forms: string, isUrgent: boolean) =>
  enqueue(
    forms,
    "greatest(now(), (SELECT f.created_at FROM forms f WHERE f.id = invited.form_id) + interval '1 ms')",
    isUrgent,
  );

/** SQL: after the invitation `n`, another was added for the same form. */
export const IS_REPLACED = `EXISTS (
  SELECT FROM emails later WHERE later.form_id = n.form_id AND later.kind = '${INVITATION}' AND later.id > n.id)`;

/** More updates of an address only store it. */
const MAX_LATER_INVITATIONS = 5;

// A new row, because an attempt that a worker begins at this moment may have read the address before it was changed: it counts as
// sent to the old one, and has been replaced. A row that waits is deleted: the worker does not find it anymore.
const REPLACE = `
  WITH waiting AS (
    SELECT n.id FROM emails n
    WHERE n.form_id = $1::uuid AND n.kind = '${INVITATION}' AND n.state::text IN ('waiting', 'retrying') AND $4::timestamptz > now()
    FOR UPDATE SKIP LOCKED
  ), replaced AS (
    DELETE FROM emails WHERE id IN (SELECT id FROM waiting) RETURNING id
  ), added AS (
    ${enqueueLaterInvitations(
      `SELECT $1::uuid, $2::uuid, $3::timestamptz, $5::uuid
      WHERE $4::timestamptz > now() AND ($6::int < ${MAX_LATER_INVITATIONS} OR EXISTS (SELECT FROM replaced))`,
      false,
    )}
    RETURNING id
  ), failed AS (
    UPDATE emails n SET state = 'expired'
    WHERE n.form_id = $1::uuid AND n.kind = '${INVITATION}' AND n.state::text = 'failed' AND EXISTS (SELECT FROM added)
  )
  SELECT (SELECT count(*) FROM added)::int - (SELECT count(*) FROM replaced)::int AS more`;

/** A form whose address has changed, as it will be. */
interface Readdressed {
  id: string;
  listingId: string;
  checkInDate: string | null;
  checkOutDate: string | null;
  /** How many invitations updates have added before. */
  laterInvitations: number;
}

/**
 * Sends the invitation to the form's new address, unless the stay is over: instead of the one that waits, or as one more, of which
 * there are at most five. Returns how many updates have added now.
 */
export async function replaceInvitation(sql: Sql, form: Readdressed, correlationId: string): Promise<number> {
  const { id, listingId, checkInDate, checkOutDate, laterInvitations } = form;
  const values = [id, listingId, checkInDate, checkOutDate, correlationId, laterInvitations];
  const [added] = await sql.query<{ more: number }>("replace-invitation", REPLACE, values);
  return laterInvitations + Math.max(0, added?.more ?? 0);
}

const END = `
  UPDATE emails n SET state = 'expired', next_attempt_at = NULL, ended_at = coalesce(n.ended_at, now())
  WHERE n.form_id = $1::uuid AND n.kind = '${INVITATION}' AND n.state::text IN ('waiting', 'retrying', 'failed')`;

/** Ends the invitations of a form that needs none anymore. One that is being sent right now is not retried. */
export async function endInvitations(sql: Sql, formId: string): Promise<void> {
  await sql.query("end-invitations", END, [formId]);
}

// As text, so that the planner reads the index of the form. Only rows that are not being sent, so that a slow change of a form delays the recording of no outcome.
const IS_AT_REST = "n.state::text IN ('waiting', 'retrying', 'failed', 'expired')";

/** SQL that follows the form's check-in date and listing, so that the order and the turns stay right. */
export const moveInvitations = (formId: string, listingId: string, checkInDate: string) => `
  UPDATE emails n SET check_in_date = moved.check_in_date, tenant_id = moved.tenant_id
  FROM (SELECT ${checkInDate} AS check_in_date, ${tenantOf(listingId)} AS tenant_id) AS moved
  WHERE n.form_id = ${formId} AND ${IS_AT_REST} AND moved.check_in_date IS NOT NULL
    AND (n.check_in_date, n.tenant_id) <> (moved.check_in_date, moved.tenant_id)`;

const CANCEL = `
  DELETE FROM emails WHERE form_id = ANY($1::uuid[]) AND state::text IN ('waiting', 'retrying', 'failed', 'bounced') RETURNING id`;

/** Removes the unsent emails about these forms, except those being sent right now, and returns their number. */
export async function cancelInvitations(sql: Sql, formIds: string[]): Promise<number> {
  return (await sql.query("cancel-emails", CANCEL, [formIds])).length;
}
