import type { Sql } from "../db.js";

/** The one task: tell the guest that a form awaits them. */
export const FORM_CREATED = "form-created";

const ENQUEUE = "SELECT (graphile_worker.add_job($1::text, json_build_object('formId', $2::uuid))).id::text";

export async function enqueueFormCreated(tx: Sql, formId: string): Promise<void> {
  await tx.query("enqueue", ENQUEUE, [FORM_CREATED, formId]);
}
