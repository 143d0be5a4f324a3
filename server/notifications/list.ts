import type { Context } from "../context.js";
import { type Notification, STATES, type State } from "./schema.js";

// A literal instead of a parameter, so that generic plans can use the partial index.
const UNSENT = `
  SELECT id::text, form_id::text AS "formId", state, attempts, last_error AS "lastError", next_attempt_at AS "runAt"
  FROM notifications WHERE state <> 'sent'`;

// Not `ORDER BY id`, which would sort by the text in the select list.
const OLDEST_FIRST = `${UNSENT} ORDER BY notifications.id`;

const COUNTS = "SELECT state, count(*)::int AS count FROM notifications WHERE state <> 'sent' GROUP BY state";

/** Unsent notifications, oldest first. */
export const listNotifications = ({ services }: Context): Promise<Notification[]> =>
  services.db.query("list-notifications", OLDEST_FIRST, []);

/** The unsent notification with this id (a 64-bit integer). */
export async function findNotification({ services }: Context, id: string): Promise<Notification | undefined> {
  const [found] = await services.db.query<Notification>(
    "find-notification",
    `${UNSENT} AND id = $1::bigint`,
    [id],
  );
  return found;
}

const OVERDUE = `
  SELECT coalesce(extract(epoch FROM now() - min(next_attempt_at)), 0)::float8 AS seconds
  FROM notifications WHERE state IN ('waiting', 'retrying') AND next_attempt_at <= now()`;

/** Seconds that the longest-waiting due notification has waited; 0 if none is due. */
export async function longestWait({ services }: Context): Promise<number> {
  const [found] = await services.db.query<{ seconds: number }>("longest-wait", OVERDUE, []);
  return found?.seconds ?? 0;
}

/** Number of notifications per state. */
export async function countNotifications({ services }: Context): Promise<Record<State, number>> {
  const rows = await services.db.query<{ state: State; count: number }>("count-notifications", COUNTS, []);
  const counts = new Map(rows.map(({ state, count }) => [state, count]));
  return Object.fromEntries(STATES.map((state) => [state, counts.get(state) ?? 0])) as Record<State, number>;
}
