import type { Context } from "../access/context.js";
import { audit } from "../audit.js";
import { queryIn } from "../database/db.js";
import { invalid, notFound } from "../errors.js";
import { FORM_CREATED, NEEDS_NO_INVITATION } from "./expiry.js";
import { findNotification } from "./list.js";
import type { Notification } from "./schema.js";

/** Ids are positive 64-bit integers. */
const ID = /^[1-9]\d{0,17}$/;

const RETRY = `
  UPDATE notifications n SET state = 'waiting', attempts = 0, crashes = 0, next_attempt_at = now()
  FROM forms f
  WHERE f.id = n.form_id AND n.id = $1::bigint AND n.state IN ('waiting', 'retrying', 'failed', 'expired')
    AND NOT (n.kind = '${FORM_CREATED}' AND ${NEEDS_NO_INVITATION})
  RETURNING n.form_id::text AS "formId", n.last_error AS "lastError", n.next_attempt_at AS "nextAttemptAt"`;

export async function retryNotification(context: Context, id: string): Promise<Notification> {
  if (!ID.test(id)) throw notFound();
  const { db } = context.services;
  // Use the updated row: a worker may send it before it could be read again.
  const retried = await db.transaction(async (tx) => {
    const [row] = await queryIn<{ formId: string; lastError: string | null; nextAttemptAt: Date }>(
      tx,
      "retry-notification",
      RETRY,
      [id],
    );
    if (!row) return undefined;
    const { nextAttemptAt, ...rest } = row;
    await audit(tx, context, "notification.retried", row.formId, { notificationId: id });
    return { ...rest, id, state: "waiting" as const, attempts: 0, runAt: nextAttemptAt.toISOString() };
  });
  const found = retried ?? (await findNotification(context, id));
  if (!found) throw notFound();
  if (!retried && found.state !== "running")
    throw invalid([{ field: "id", issue: "the stay is over or the form is past SENT: its email is not sent" }]);
  return found;
}
