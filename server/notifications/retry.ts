import { audit } from "../audit.js";
import type { Context } from "../context.js";
import { notFound } from "../errors.js";
import { FORM_CREATED } from "./enqueue.js";
import { findNotification } from "./list.js";
import type { Notification } from "./schema.js";

/** Of one that a worker holds, the attempt under way is the retry. */
const RETRY = `
  UPDATE graphile_worker._private_jobs j SET attempts = 0, run_at = now(), updated_at = now()
  FROM graphile_worker._private_tasks t
  WHERE j.id = $1::bigint AND t.id = j.task_id AND t.identifier = $2 AND j.locked_at IS NULL
  RETURNING j.payload ->> 'formId' AS "formId", j.last_error AS "lastError", j.run_at AS "runAt"`;

interface Retried {
  formId: string;
  lastError: string | null;
  runAt: Date;
}

/** Job ids are 64-bit integers. */
const ID = /^[1-9]\d{0,17}$/;

/** Has a notification tried again at once; RESOURCE_NOT_FOUND where none waits or has failed under this id. */
export async function retryNotification(context: Context, id: string): Promise<Notification> {
  if (!ID.test(id)) throw notFound();
  // By the time it could be read again it may have been sent.
  const retried = await context.services.db.transaction(async (tx) => {
    const [job] = await tx.$queryRawUnsafe<Retried[]>(RETRY, id, FORM_CREATED);
    if (!job) return undefined;
    await audit(tx, context, "notification.retried", job.formId, { notificationId: id });
    return { ...job, id, state: "waiting" as const, attempts: 0, runAt: job.runAt.toISOString() };
  });
  const found = retried ?? (await findNotification(context, id));
  if (!found) throw notFound();
  return found;
}
