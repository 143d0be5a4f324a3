import { randomUUID } from "node:crypto";
import type { Services } from "../context.js";
import { BATCH, eraseAddresses } from "./erase.js";

/**
 * Erases the addresses of guests who checked out RETENTION_DAYS ago. Each batch is a separate transaction, so that no form is
 * locked for long. Locked forms are left to the next run.
 */
export async function eraseDueEmails(
  { db, settings }: Services,
  log: { info(facts: object, message: string): void },
  signal?: AbortSignal,
): Promise<void> {
  const system = { principal: null, correlationId: randomUUID() };
  let forms = 0;
  for (let full = true; full && !signal?.aborted; ) {
    const count = await db.transaction(async (tx) => {
      const due = await tx.$queryRaw<{ id: string }[]>`
        SELECT id::text FROM forms
        WHERE guest_email IS NOT NULL AND check_out_date < now() - make_interval(days => ${settings.RETENTION_DAYS}::int)
        ORDER BY check_out_date LIMIT ${BATCH} FOR UPDATE SKIP LOCKED`;
      const ids = due.map(({ id }) => id);
      await eraseAddresses(tx, system, ids, "retention");
      return ids.length;
    });
    forms += count;
    full = count === BATCH;
  }
  if (forms > 0) log.info({ forms, correlationId: system.correlationId }, "email addresses were erased");
}
