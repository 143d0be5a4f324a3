import type { Transaction } from "../db.js";

/** Removes the unsent notifications of these forms, except those being sent right now, and returns their number. */
export async function cancelNotifications(tx: Transaction, formIds: string[]): Promise<number> {
  const { count } = await tx.notification.deleteMany({
    where: { formId: { in: formIds }, state: { in: ["waiting", "retrying", "failed"] } },
  });
  return count;
}
