import type { Context } from "../context.js";
import { FORM_CREATED } from "./enqueue.js";
import { type Notification, STATES, type State } from "./schema.js";

const STATE = `
  CASE WHEN j.locked_at IS NOT NULL THEN 'running' WHEN j.attempts >= j.max_attempts THEN 'failed'
    WHEN j.attempts > 0 THEN 'retrying' ELSE 'waiting' END`;

// The public view lacks the payload, which is all that tells the form; the package's version is pinned for this.
const JOBS = `
  SELECT j.id::text, p.payload ->> 'formId' AS "formId", ${STATE} AS state, j.attempts,
    j.last_error AS "lastError", j.run_at AS "runAt"
  FROM graphile_worker.jobs j JOIN graphile_worker._private_jobs p ON p.id = j.id
  WHERE j.task_identifier = $1`;

export function listNotifications({ services }: Context): Promise<Notification[]> {
  return services.db.query("notifications", `${JOBS} ORDER BY j.id`, [FORM_CREATED]);
}

/** The notification with this id, a 64-bit integer. */
export async function findNotification({ services }: Context, id: string): Promise<Notification | undefined> {
  const values = [FORM_CREATED, id];
  const [found] = await services.db.query<Notification>("notification", `${JOBS} AND j.id = $2`, values);
  return found;
}

const COUNTS = `
  SELECT ${STATE} AS state, count(*)::int AS count
  FROM graphile_worker.jobs j
  WHERE j.task_identifier = $1
  GROUP BY 1`;

/** How many notifications are in each state. */
export async function countNotifications({ services }: Context): Promise<Record<State, number>> {
  const rows = await services.db.query<{ state: State; count: number }>("notification-counts", COUNTS, [
    FORM_CREATED,
  ]);
  const counts = new Map(rows.map(({ state, count }) => [state, count]));
  return Object.fromEntries(STATES.map((state) => [state, counts.get(state) ?? 0])) as Record<State, number>;
}
