import type { Context } from "../context.js";
import type { Sql } from "../db.js";

/** The kind of the notification that asks a guest to fill in a new form. */
export const FORM_CREATED = "form.created";

const INSERT = "INSERT INTO notifications (kind, form_id, correlation_id) VALUES ($1, $2::uuid, $3::uuid)";

/** Enqueues the message to the guest of a new form. Call it in the transaction that creates the form. */
export async function enqueueFormCreated(
  tx: Sql,
  { correlationId }: Pick<Context, "correlationId">,
  formId: string,
): Promise<void> {
  await tx.query("enqueue-notification", INSERT, [FORM_CREATED, formId, correlationId]);
}
