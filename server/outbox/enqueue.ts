import type { Sql } from "../database/db.js";

/** The kind of the invitation: the email that asks a guest to fill in the form. It expires. */
export const INVITATION = "form.created";

/** The kind of the email that notifies the owner of a webhook endpoint that it was disabled. */
export const ENDPOINT_DISABLED = "webhook.disabled";

/** SQL that enqueues invitations; `created` is a query of form ids, check-in dates and the correlation ids of the creates. */
export const enqueueInvitations = (created: string) => `
  INSERT INTO notifications (kind, form_id, check_in_date, correlation_id)
  SELECT '${INVITATION}', form_id, check_in_date, correlation_id
  FROM (${created}) AS created (form_id, check_in_date, correlation_id)`;

/** SQL that follows the form's check-in date, so that the nearest stay stays first. */
export const moveInvitations = (formId: string, checkInDate: string) => `
  UPDATE notifications SET check_in_date = ${checkInDate}
  WHERE form_id = ${formId} AND state <> 'sent' AND check_in_date <> ${checkInDate}`;

const CANCEL = `
  DELETE FROM notifications
  WHERE form_id = ANY($1::uuid[]) AND event_id IS NULL AND state::text IN ('waiting', 'retrying', 'failed')
  RETURNING id`;

/** Removes the unsent emails about these forms, except those being sent right now, and returns their number. */
export async function cancelInvitations(sql: Sql, formIds: string[]): Promise<number> {
  return (await sql.query("cancel-notifications", CANCEL, [formIds])).length;
}
