import type { Call } from "../access/context.js";
import { audit } from "../audit.js";
import { queryIn } from "../database/db.js";
import { invalid, notFound } from "../errors.js";
import { type Page, readPage } from "../resources/paging.js";
import { toSqlRow } from "../resources/resource.js";
import { FORM_CREATED, NEEDS_NO_INVITATION } from "./expiry.js";
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

// Cursors hold 16 bytes: a UUID, or an id as a number of as many bytes.
const toCursorId = (id: string) => BigInt(id).toString(16).padStart(32, "0");
const fromCursorId = (id: string) => BigInt(`0x${id.replaceAll("-", "")}`).toString();

type Row = Omit<Notification, "id"> & { notificationId: string; createdAt: string };

export function listNotifications({ ctx, input }: Call<typeof schema.listInput>): Promise<Page<Notification>> {
  const { db } = ctx.services;
  const { state } = input;
  return readPage(ctx, input, {
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
}

/** Ids are positive 64-bit integers. */
const ID = /^[1-9]\d{0,17}$/;

const RETRY = `
  UPDATE notifications n SET state = 'waiting', attempts = 0, crashes = 0, next_attempt_at = now()
  FROM forms f
  WHERE f.id = n.form_id AND n.id = $1::bigint AND n.state IN ('waiting', 'retrying', 'failed', 'expired')
    AND NOT (n.kind = '${FORM_CREATED}' AND ${NEEDS_NO_INVITATION})
  RETURNING n.id::text, ${COLUMNS}`;

const FIND = `SELECT n.id::text, ${COLUMNS} FROM notifications n WHERE ${IS_UNSENT} AND n.id = $1::bigint`;

export async function retryNotification({ ctx, input: { id } }: Call<typeof schema.retryInput>): Promise<Notification> {
  if (!ID.test(id)) throw notFound();
  const { db } = ctx.services;
  const retried = await db.transaction(async (tx) => {
    const [row] = await queryIn<Omit<Notification, "runAt"> & { runAt: Date }>(tx, "retry-notification", RETRY, [id]);
    if (row) await audit(tx, ctx, "notification.retried", row.formId, { notificationId: id });
    return row;
  });
  // The updated row: a worker may send it before it could be read again.
  if (retried) return toSqlRow(retried);
  const [unchanged] = await db.query<Notification>("find-notification", FIND, [id]);
  if (!unchanged) throw notFound();
  if (unchanged.state !== "running")
    throw invalid([{ field: "id", issue: "the stay is over or the form is past SENT: its email is not sent" }]);
  return unchanged;
}
