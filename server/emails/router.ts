import { readEmailFigures } from "../outbox/figures.js";
import { operatorProcedure, router } from "../trpc.js";
import { dismissEmail, dismissEmails, markBounced } from "./follow-up.js";
import { previewInvitation } from "./preview.js";
import * as schema from "./schema.js";
import { listEmails, retryEmail, retryFailedEmails, sendInvitation } from "./store.js";

export const emailsRouter = router({
  /**
   * Emails that wait, or have not reached anybody and were not dismissed, or those in one state, oldest first; sent ones newest
   * first. With `formId`, all of this form, oldest first.
   * Operator. Errors: INVALID_CURSOR, VALIDATION_ERROR.
   */
  list: operatorProcedure.input(schema.listInput).output(schema.emailPage).query(listEmails),
  /**
   * Resets an email to its first attempt, due now. One that is being sent is not changed. Operator.
   * Errors: RESOURCE_NOT_FOUND (no such email, or it was sent), VALIDATION_ERROR (the stay is over, or the form is
   * past SENT).
   */
  retry: operatorProcedure.input(schema.emailIdInput).output(schema.email).mutation(retryEmail),
  /**
   * Resets every failed email to its first attempt, due now, except invitations whose stay is over or whose form is past
   * SENT. Operator.
   */
  retryFailed: operatorProcedure.output(schema.retriedEmails).mutation(retryFailedEmails),
  /** Dismisses an email that failed or bounced: it is not warned about anymore. Operator. Errors: RESOURCE_NOT_FOUND. */
  dismiss: operatorProcedure.input(schema.emailIdInput).output(schema.email).mutation(dismissEmail),
  /** Dismisses every email that failed or bounced. Operator. */
  dismissAll: operatorProcedure.output(schema.dismissedEmails).mutation(dismissEmails),
  /**
   * Records that sent emails came back, such as from a mail relay's webhook. By address it reads all stored addresses. Returns the
   * emails, none if none was found. Operator. Errors: VALIDATION_ERROR (neither a Message-ID of this service nor an address).
   */
  markBounced: operatorProcedure.input(schema.bouncedInput).output(schema.bouncedEmails).mutation(markBounced),
  /**
   * Sends the guest of a form the invitation, also if it was sent before. One that waits, failed or expired is reset to its first
   * attempt, due now; one that is being sent is not changed. It goes before the other emails of its tenant. Operator. Errors: RESOURCE_NOT_FOUND (form), VALIDATION_ERROR (the
   * form has no email address, its stay is over, or it is past SENT).
   */
  send: operatorProcedure.input(schema.sendInput).output(schema.email).mutation(sendInvitation),
  /**
   * The invitation that the guest of a form would get, in this language or the listing's. Operator. Errors: RESOURCE_NOT_FOUND
   * (form), VALIDATION_ERROR (no templates in this language).
   */
  preview: operatorProcedure.input(schema.previewInput).output(schema.invitation).query(previewInvitation),
  /** Number of emails per state, except sent ones. Operator. */
  count: operatorProcedure
    .output(schema.emailCounts)
    .query(async ({ ctx: { services } }) => (await readEmailFigures(services.db)).counts),
});
