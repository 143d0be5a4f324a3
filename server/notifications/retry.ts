import { audit } from "../audit.js";
import type { Context } from "../context.js";
import { notFound } from "../errors.js";
import { findNotification } from "./list.js";
import type { Notification } from "./schema.js";

/** Ids are positive 64-bit integers. */
const ID = /^[1-9]\d{0,17}$/;

/**
 * Resets a notification to its first attempt, due now. One that is being sent is not changed. RESOURCE_NOT_FOUND if there is
 * no such notification or it was sent.
 */
export async function retryNotification(context: Context, id: string): Promise<Notification> {
  if (!ID.test(id)) throw notFound();
  const { db } = context.services;
  // Use the updated row: a worker may send it before it could be read again.
  const retried = await db.transaction(async (tx) => {
    const [row] = await tx.$queryRaw<{ formId: string; lastError: string | null; nextAttemptAt: Date }[]>`
      UPDATE notifications SET state = 'waiting', attempts = 0, crashes = 0, next_attempt_at = now()
      WHERE id = ${BigInt(id)} AND state IN ('waiting', 'retrying', 'failed')
      RETURNING form_id::text AS "formId", last_error AS "lastError", next_attempt_at AS "nextAttemptAt"`;
    if (!row) return undefined;
    const { nextAttemptAt, ...rest } = row;
    await audit(tx, context, "notification.retried", row.formId, { notificationId: id });
    return { ...rest, id, state: "waiting" as const, attempts: 0, runAt: nextAttemptAt.toISOString() };
  });
  const found = retried ?? (await findNotification(context, id));
  if (!found) throw notFound();
  return found;
}
