import type { z } from "zod";
import type { Context } from "../context.js";
import { keysetValues, type Page, readPage } from "../paging.js";
import type { listInput, Notification } from "./schema.js";
import { STATES, type State } from "./states.js";

// A literal instead of a parameter, so that generic plans can use the partial index.
const IS_UNSENT = "n.state <> 'sent'";

const COLUMNS = `n.form_id::text AS "formId", n.state, n.attempts, n.last_error AS "lastError", n.next_attempt_at AS "runAt"`;

// By creation time, then id. By id alone the planner may read all sent ones to find a page of others.
const oldestUnsent = (condition: string) => `
  SELECT n.id::text AS "notificationId", n.created_at AS "createdAt", ${COLUMNS}
  FROM notifications n
  WHERE ${IS_UNSENT} AND (n.created_at, n.id) > ($1::timestamptz, $2::bigint) ${condition}
  ORDER BY n.created_at, n.id
  LIMIT $3::int`;

const OLDEST = oldestUnsent("");
const OLDEST_IN_STATE = oldestUnsent("AND n.state::text = $4");

const FIND = `SELECT n.id::text, ${COLUMNS} FROM notifications n WHERE ${IS_UNSENT} AND n.id = $1::bigint`;

const COUNTS = "SELECT state, count(*)::int AS count FROM notifications WHERE state <> 'sent' GROUP BY state";

// Cursors hold 16 bytes: a UUID, or an id as a number of as many bytes.
const toCursorId = (id: string) => BigInt(id).toString(16).padStart(32, "0");
const fromCursorId = (id: string) => BigInt(`0x${id.replaceAll("-", "")}`).toString();

type Row = Omit<Notification, "id"> & { notificationId: string; createdAt: string };

/** A page of the unsent notifications, or of those in one state, oldest first. */
export async function listNotifications(
  { services: { db, keyring } }: Context,
  { limit, cursor, state }: z.output<typeof listInput>,
): Promise<Page<Notification>> {
  const { items, nextCursor } = await readPage({
    limit,
    cursor,
    keys: keyring.cursor,
    identity: { list: "notifications", state },
    async read(after, take) {
      const [createdAt, id] = keysetValues(after, take);
      const page = [createdAt, fromCursorId(id), take];
      const rows =
        state === undefined
          ? await db.query<Row>("list-notifications", OLDEST, page)
          : await db.query<Row>("list-notifications-in-state", OLDEST_IN_STATE, [...page, state]);
      return rows.map((row) => ({ ...row, id: toCursorId(row.notificationId) }));
    },
  });
  return {
    items: items.map(({ notificationId, createdAt: _createdAt, ...row }) => ({ ...row, id: notificationId })),
    nextCursor,
  };
}

/** The unsent notification with this id (a 64-bit integer). */
export async function findNotification({ services }: Context, id: string): Promise<Notification | undefined> {
  const [found] = await services.db.query<Notification>("find-notification", FIND, [id]);
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
