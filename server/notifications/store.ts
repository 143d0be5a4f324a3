import type { z } from "zod";
import type { Call, Context, OperatorContext } from "../access/context.js";
import { audit } from "../audit.js";
import { queryIn, type Sql, type Transaction } from "../database/db.js";
import { invalid, notFound } from "../errors.js";
import { enqueueInvitations, INVITATION } from "../outbox/enqueue.js";
import { fromCursorId, type KeysetValues, type Page, readPage, toCursorId } from "../resources/paging.js";
import { toSqlRow } from "../resources/resource.js";
import { IS_OVER, NEEDS_NO_INVITATION } from "./expiry.js";
import type * as schema from "./schema.js";
import type { Notification } from "./schema.js";

// A literal instead of a parameter, so that generic plans can use the partial index.
const IS_UNSENT = "n.state <> 'sent' AND n.event_id IS NULL";

const COLUMNS = `n.form_id::text AS "formId", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
  n.last_error AS "lastError", n.next_attempt_at AS "runAt", n.sent_at AS "sentAt"`;

// By creation time, then id. By id alone the planner may read all sent ones to find a page of others.
const oldest = (condition: string) => `
  SELECT n.id::text AS "notificationId", n.created_at AS "createdAt", ${COLUMNS}
  FROM notifications n
  WHERE ${condition} AND (n.created_at, n.id) > ($1::timestamptz, $2::bigint)
  ORDER BY n.created_at, n.id
  LIMIT $3::int`;

const OLDEST = oldest(IS_UNSENT);
const OLDEST_IN_STATE = oldest(`${IS_UNSENT} AND n.state::text = $4`);
// As in notifications_sent_emails_idx.
const ENDED_AT = "greatest(n.created_at, n.heartbeat_at, n.sent_at)";

const NEWEST_SENT = `
  SELECT n.id::text AS "notificationId", ${ENDED_AT} AS "createdAt", ${COLUMNS}
  FROM notifications n
  WHERE n.state = 'sent' AND n.event_id IS NULL AND (${ENDED_AT}, n.id) < ($1::timestamptz, $2::bigint)
  ORDER BY ${ENDED_AT} DESC, n.id DESC
  LIMIT $3::int`;

const OLDEST_OF_FORM = oldest(
  "n.form_id = $4::uuid AND n.event_id IS NULL AND n.state::text = coalesce($5, n.state::text)",
);

type Row = Omit<Notification, "id"> & { notificationId: string; createdAt: string };

export function listNotifications({ ctx, input }: Call<typeof schema.listInput>): Promise<Page<Notification>> {
  const { db } = ctx.services;
  const { state, formId } = input;
  return readPage(ctx, input, {
    identity: { list: "notifications", filters: { formId, state } },
    order: state === "sent" && formId === undefined ? "newest first" : "oldest first",
    async read([createdAt, id, take]) {
      const rows = await readRows(db, [createdAt, fromCursorId(id), take], input);
      return rows.map((row) => ({ ...row, id: toCursorId(row.notificationId) }));
    },
    project: ({ notificationId, createdAt: _createdAt, ...row }) => ({ ...row, id: notificationId }),
  });
}

function readRows(sql: Sql, page: KeysetValues, { state, formId }: z.output<typeof schema.listInput>): Promise<Row[]> {
  if (formId !== undefined)
    return sql.query("list-notifications-of-form", OLDEST_OF_FORM, [...page, formId, state ?? null]);
  if (state === undefined) return sql.query("list-notifications", OLDEST, page);
  if (state === "sent") return sql.query("list-sent-notifications", NEWEST_SENT, page);
  return sql.query("list-notifications-in-state", OLDEST_IN_STATE, [...page, state]);
}

/** Ids are positive 64-bit integers. */
const ID = /^[1-9]\d{0,17}$/;

const resetToFirstAttempt = (condition: string) => `
  UPDATE notifications n SET state = 'waiting', attempts = 0, crashes = 0, next_attempt_at = now()
  WHERE ${condition} AND n.event_id IS NULL
    AND NOT (n.kind = '${INVITATION}'
      AND (SELECT ${NEEDS_NO_INVITATION} FROM forms f WHERE f.id = n.form_id))
  RETURNING n.id::text, ${COLUMNS}`;

const RETRY = resetToFirstAttempt("n.id = $1::bigint AND n.state IN ('waiting', 'retrying', 'failed', 'expired')");

const findUnsent = (condition: string) =>
  `SELECT n.id::text, ${COLUMNS} FROM notifications n WHERE ${IS_UNSENT} AND ${condition}`;

const FIND = findUnsent("n.id = $1::bigint");

const TOO_LATE = "the stay is over or the form is past SENT: its email is not sent";

/** A notification as it is read in a transaction. */
type StoredRow = Omit<Notification, "runAt" | "sentAt"> & { runAt: Date | null; sentAt: Date | null };

/** A notification that was reset to its first attempt. */
type Retried = Pick<Notification, "id" | "formId" | "endpointId">;

const auditRetried = (tx: Sql | Transaction, ctx: Context, rows: readonly Retried[]) =>
  audit(
    tx,
    ctx,
    "notification.retried",
    rows.flatMap(({ formId, endpointId }) => formId ?? endpointId ?? []),
    rows.map(({ id }) => ({ notificationId: id })),
  );

/** Returns undefined if the notification cannot be retried. */
async function retry(tx: Transaction, ctx: Context, id: string): Promise<StoredRow | undefined> {
  const [row] = await queryIn<StoredRow>(tx, "retry-notification", RETRY, [id]);
  if (row) await auditRetried(tx, ctx, [row]);
  return row;
}

export async function retryNotification({ ctx, input: { id } }: Call<typeof schema.retryInput>): Promise<Notification> {
  if (!ID.test(id)) throw notFound();
  const { db } = ctx.services;
  const retried = await db.transaction((tx) => retry(tx, ctx, id));
  // The updated row: a worker may send it before it could be read again.
  if (retried) return toSqlRow(retried);
  const [unchanged] = await db.query<Notification>("find-notification", FIND, [id]);
  if (!unchanged) throw notFound();
  if (unchanged.state !== "running") throw invalid([{ field: "id", issue: TOO_LATE }]);
  return unchanged;
}

const FIND_FAILED = `SELECT n.id::text FROM notifications n WHERE ${IS_UNSENT} AND n.state::text = 'failed'`;

// Leaves to another call what it is retrying.
const RETRY_FAILED = resetToFirstAttempt(`n.id = ANY(ARRAY(
    SELECT id FROM notifications WHERE id = ANY($1::bigint[]) AND state::text = 'failed'
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED))`);

/** Notifications per transaction. */
const BATCH = 500;

/** After a failure, the notifications of some batches are retried. */
export async function retryFailedNotifications({ ctx }: { ctx: OperatorContext }) {
  const { db } = ctx.services;
  const failed = await db.query<{ id: string }>("failed-notifications", FIND_FAILED, []);
  const ids = failed.map(({ id }) => id);
  let retried = 0;
  for (let from = 0; from < ids.length; from += BATCH) {
    retried += await db.sqlTransaction(async (tx) => {
      const batch = [ids.slice(from, from + BATCH)];
      const rows = await tx.query<Retried>("retry-failed-notifications", RETRY_FAILED, batch);
      await auditRetried(tx, ctx, rows);
      return rows.length;
    }, ctx.signal);
  }
  return { retried };
}

// Locks the form, so that two calls at the same time send one email.
const LOCK_FORM = `
  SELECT f.guest_email IS NOT NULL AS "hasAddress", ${IS_OVER} AS "isOver", f.status
  FROM forms f WHERE f.id = $1::uuid FOR NO KEY UPDATE`;

interface FormToInvite {
  hasAddress: boolean;
  isOver: boolean;
  status: string;
}

function whyNotInvited({ hasAddress, isOver, status }: FormToInvite): string | undefined {
  if (!hasAddress) return "the form has no guest email address";
  if (isOver) return "the stay is over: the invitation is not sent";
  if (status !== "SENT") return "the form is no longer SENT: the invitation is not sent";
  return undefined;
}

const FIND_OF_FORM = findUnsent(`n.form_id = $1::uuid AND n.kind = '${INVITATION}'`);

const ENQUEUE = `
  WITH n AS (
    ${enqueueInvitations("SELECT id, coalesce(check_in_date, now()), $2::uuid FROM forms WHERE id = $1::uuid")}
    RETURNING *)
  SELECT n.id::text, ${COLUMNS} FROM n`;

export const sendNotification = ({ ctx, input: { formId } }: Call<typeof schema.sendInput>): Promise<Notification> =>
  ctx.services.db.transaction(async (tx) => {
    const [form] = await queryIn<FormToInvite>(tx, "form-to-invite", LOCK_FORM, [formId]);
    if (!form) throw notFound("form");
    const issue = whyNotInvited(form);
    if (issue) throw invalid([{ field: "formId", issue }]);
    const [unsent] = await queryIn<StoredRow>(tx, "find-notification-of-form", FIND_OF_FORM, [formId]);
    // A worker may claim it at the same moment.
    if (unsent) return toSqlRow((await retry(tx, ctx, unsent.id)) ?? unsent);
    const [added] = await queryIn<StoredRow>(tx, "enqueue-notification", ENQUEUE, [formId, ctx.correlationId]);
    if (!added) throw notFound("form");
    await audit(tx, ctx, "notification.requested", formId, { notificationId: added.id });
    return toSqlRow(added);
  });
