import type { z } from "zod";
import type { Context } from "../access/context.js";
import { type Page, readPage } from "../resources/paging.js";
import type * as schema from "./schema.js";
import type { Notification } from "./schema.js";

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

// Cursors hold 16 bytes: a UUID, or an id as a number of as many bytes.
const toCursorId = (id: string) => BigInt(id).toString(16).padStart(32, "0");
const fromCursorId = (id: string) => BigInt(`0x${id.replaceAll("-", "")}`).toString();

type Row = Omit<Notification, "id"> & { notificationId: string; createdAt: string };

export const listNotifications = (
  { services: { db, keyring } }: Context,
  { state, ...input }: z.output<typeof schema.listInput>,
): Promise<Page<Notification>> =>
  readPage(input, {
    keys: keyring.cursor,
    identity: { list: "notifications", state },
    order: "oldest first",
    async read([createdAt, id, take]) {
      const page = [createdAt, fromCursorId(id), take];
      const rows =
        state === undefined
          ? await db.query<Row>("list-notifications", OLDEST, page)
          : await db.query<Row>("list-notifications-in-state", OLDEST_IN_STATE, [...page, state]);
      return rows.map((row) => ({ ...row, id: toCursorId(row.notificationId) }));
    },
    project: ({ notificationId, createdAt: _createdAt, ...row }) => ({ ...row, id: notificationId }),
  });

/** The unsent notification with this id (a 64-bit integer). */
export async function findNotification({ services }: Context, id: string): Promise<Notification | undefined> {
  const [found] = await services.db.query<Notification>("find-notification", FIND, [id]);
  return found;
}
