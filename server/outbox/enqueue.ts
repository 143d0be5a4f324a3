import type { Sql } from "../database/db.js";
import { firstOwnerOf } from "../memberships/first-owner.js";

/** The kind of the email that asks a guest to fill in the form. */
export const INVITATION = "invitation";

/** The kind of the email that notifies the owner of a webhook endpoint that it was disabled. */
export const ENDPOINT_DISABLED = "endpoint_disabled";

/** SQL: whose turn an invitation takes: the first owner of the listing, or the listing itself if it has none. */
const tenantOf = (listingId: string) => `coalesce((SELECT u.id FROM ${firstOwnerOf(listingId)}), ${listingId})`;

/** SQL that enqueues invitations; `forms` is a query of form ids, listing ids, check-in dates and correlation ids. */
export const enqueueInvitations = (forms: string, isUrgent = false) => `
  INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id, is_urgent)
  SELECT '${INVITATION}', form_id, ${tenantOf("created.listing_id")}, check_in_date, correlation_id, ${isUrgent}
  FROM (${forms}) AS created (form_id, listing_id, check_in_date, correlation_id)`;

// As text, so that the planner reads the index of the form. Only rows that are not being sent, so that a slow change of a form delays the recording of no outcome.
const IS_AT_REST = "n.state::text IN ('waiting', 'retrying', 'failed', 'expired')";

/** SQL that follows the form's check-in date and listing, so that the order and the turns stay right. */
export const moveInvitations = (formId: string, listingId: string, checkInDate: string) => `
  UPDATE emails n SET check_in_date = moved.check_in_date, tenant_id = moved.tenant_id
  FROM (SELECT ${checkInDate} AS check_in_date, ${tenantOf(listingId)} AS tenant_id) AS moved
  WHERE n.form_id = ${formId} AND ${IS_AT_REST} AND moved.check_in_date IS NOT NULL
    AND (n.check_in_date, n.tenant_id) <> (moved.check_in_date, moved.tenant_id)`;

const CANCEL = `
  DELETE FROM emails WHERE form_id = ANY($1::uuid[]) AND state::text IN ('waiting', 'retrying', 'failed') RETURNING id`;

/** Removes the unsent emails about these forms, except those being sent right now, and returns their number. */
export async function cancelInvitations(sql: Sql, formIds: string[]): Promise<number> {
  return (await sql.query("cancel-emails", CANCEL, [formIds])).length;
}
