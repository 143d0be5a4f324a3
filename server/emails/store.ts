import type { Call, Context, OperatorContext } from "../access/context.js";
import { audit } from "../audit-trail/audit.js";
import { UNDELIVERED_EMAIL_STATES } from "../constants.js";
import type { Sql } from "../database/db.js";
import { invalid, notFound } from "../errors.js";
import { checkNotCancelled } from "../forms/rules.js";
import { enqueueLaterInvitations, INVITATION, IS_REPLACED } from "../outbox/enqueue.js";
import { fromCursorId, type Page, readPage, toCursorId } from "../resources/paging.js";
import { IS_OVER, NEEDS_NO_INVITATION } from "./expiry.js";
import type * as schema from "./schema.js";
import type { Email } from "./schema.js";

const ofForm = (column: string) => `(SELECT f.${column} FROM forms f WHERE f.id = n.form_id)`;

/** Select list of an email over `emails n`. */
export const EMAIL_COLUMNS = `n.id::text, n.form_id::text AS "formId", ${ofForm("listing_id")} AS "listingId",
  ${ofForm("check_in_date")} AS "checkInDate", n.endpoint_id::text AS "endpointId", n.state, n.attempts,
  n.last_error AS "lastError", n.heartbeat_at AS "lastAttemptAt", n.next_attempt_at AS "runAt",
  CASE WHEN n.state IN ('sent', 'bounced') THEN n.ended_at END AS "sentAt", n.message_id AS "messageId", n.reply`;

/** The states of a list that is not filtered. */
const LISTED_STATES = UNDELIVERED_EMAIL_STATES.filter((state) => state !== "dismissed");

// Merges the oldest of each state. The literal lets generic plans use emails_unsent_idx.
const OLDEST_IN_STATES = `
  SELECT n.created_at AS "createdAt", ${EMAIL_COLUMNS}
  FROM unnest($4::text[]::"EmailState"[]) AS s (state) CROSS JOIN LATERAL (
    SELECT * FROM emails n
    WHERE n.state = s.state AND n.state <> 'sent' AND (n.created_at, n.id) > ($1::timestamptz, $2::bigint)
    ORDER BY n.created_at, n.id LIMIT $3::int) AS n
  ORDER BY n.created_at, n.id LIMIT $3::int`;

const NEWEST_SENT = `
  SELECT n.ended_at AS "createdAt", ${EMAIL_COLUMNS}
  FROM emails n
  WHERE n.ended_at IS NOT NULL AND n.state = 'sent' AND (n.ended_at, n.id) < ($1::timestamptz, $2::bigint)
  ORDER BY n.ended_at DESC, n.id DESC LIMIT $3::int`;

const OLDEST_OF_FORM = `
  SELECT n.created_at AS "createdAt", ${EMAIL_COLUMNS}
  FROM emails n
  WHERE n.form_id = $4::uuid AND n.state::text = coalesce($5, n.state::text)
    AND (n.created_at, n.id) > ($1::timestamptz, $2::bigint)
  ORDER BY n.created_at, n.id LIMIT $3::int`;

export function listEmails({ ctx, input }: Call<typeof schema.listInput>): Promise<Page<Email>> {
  const { state, formId } = input;
  const isOfSent = state === "sent" && formId === undefined;
  return readPage(ctx, input, {
    identity: { list: "emails", filters: { formId, state } },
    order: isOfSent ? "newest first" : "oldest first",
    async read([createdAt, id, take]) {
      const page = [createdAt, fromCursorId(id), take];
      const rows = await readRows(ctx.services.db, page, input);
      return rows.map((row) => ({ ...row, id: toCursorId(row.id), emailId: row.id }));
    },
    project: ({ emailId, createdAt: _createdAt, ...row }) => ({ ...row, id: emailId }),
  });
}

type ListFilters = Pick<Call<typeof schema.listInput>["input"], "state" | "formId">;

function readRows(sql: Sql, page: (string | number)[], { state, formId }: ListFilters) {
  type Row = Email & { createdAt: string };
  if (formId !== undefined)
    return sql.query<Row>("list-emails-of-form", OLDEST_OF_FORM, [...page, formId, state ?? null]);
  if (state === "sent") return sql.query<Row>("list-sent-emails", NEWEST_SENT, page);
  return sql.query<Row>("list-emails", OLDEST_IN_STATES, [...page, state ? [state] : LISTED_STATES]);
}

/** Ids are positive 64-bit integers. */
export const EMAIL_ID = /^[1-9]\d{0,17}$/;

// An attempt that a worker begins meanwhile has won: its row is no longer at rest, so it is neither locked nor reset.
const LOCK = `
  SELECT n.id::text FROM emails n
  WHERE n.id = $1::bigint AND n.state IN ('waiting', 'retrying', 'failed', 'expired') FOR NO KEY UPDATE`;

const resetToFirstAttempt = (isUrgent: boolean) => `
  UPDATE emails n
  SET state = 'waiting', attempts = 0, crashes = 0, next_attempt_at = now(), ended_at = NULL, is_urgent = ${isUrgent}
  WHERE n.id = ANY($1::bigint[])
    AND NOT (n.kind = '${INVITATION}' AND (SELECT ${NEEDS_NO_INVITATION} FROM forms f WHERE f.id = n.form_id))
  RETURNING ${EMAIL_COLUMNS}`;

const RETRY = resetToFirstAttempt(true);

const findUnsent = (condition: string) => `
  SELECT ${EMAIL_COLUMNS} FROM emails n
  WHERE n.state <> 'sent' AND n.state::text NOT IN ('bounced', 'dismissed') AND ${condition}`;

const FIND = findUnsent("n.id = $1::bigint");

const TOO_LATE = "the stay is over, the form is past SENT, or another invitation followed: this email is not sent";

export const auditEmails = (tx: Sql, ctx: Context, action: string, rows: readonly Email[]) =>
  audit(
    tx,
    ctx,
    action,
    rows.flatMap(({ formId, endpointId }) => formId ?? endpointId ?? []),
    rows.map(({ id }) => ({ emailId: id })),
  );

const RETRIED = "email.retried";

/** Returns undefined if the email cannot be retried. */
async function retry(tx: Sql, ctx: Context, id: string): Promise<Email | undefined> {
  const [locked] = await tx.query<{ id: string }>("lock-email", LOCK, [id]);
  if (!locked) return undefined;
  const [row] = await tx.query<Email>("retry-email", RETRY, [[id]]);
  if (row) await auditEmails(tx, ctx, RETRIED, [row]);
  return row;
}

export async function retryEmail({ ctx, input: { id } }: Call<typeof schema.emailIdInput>): Promise<Email> {
  if (!EMAIL_ID.test(id)) throw notFound();
  const { db } = ctx.services;
  const retried = await db.sqlTransaction((tx) => retry(tx, ctx, id));
  // The updated row: a worker may send it before it could be read again.
  if (retried) return retried;
  const [unchanged] = await db.query<Email>("find-email", FIND, [id]);
  if (!unchanged) throw notFound();
  if (unchanged.state !== "running") throw invalid([{ field: "id", issue: TOO_LATE }]);
  return unchanged;
}

const FIND_FAILED = "SELECT n.id::text FROM emails n WHERE n.state = 'failed' AND n.state <> 'sent'";

// Leaves to another call what it is retrying.
const LOCK_FAILED = `
  SELECT n.id::text FROM emails n
  WHERE n.id = ANY($1::bigint[]) AND n.state::text = 'failed' ORDER BY n.id FOR NO KEY UPDATE SKIP LOCKED`;

const RETRY_FAILED = resetToFirstAttempt(false);

/** Emails per transaction. */
const BATCH = 500;

/** After a failure, the emails of some batches are retried. */
export async function retryFailedEmails({ ctx }: { ctx: OperatorContext }) {
  const { db } = ctx.services;
  const failed = await db.query<{ id: string }>("failed-emails", FIND_FAILED, []);
  const ids = failed.map(({ id }) => id);
  let retried = 0;
  for (let from = 0; from < ids.length; from += BATCH) {
    retried += await db.sqlTransaction(async (tx) => {
      const locked = await tx.query<{ id: string }>("lock-failed-emails", LOCK_FAILED, [ids.slice(from, from + BATCH)]);
      const rows = await tx.query<Email>("retry-failed-emails", RETRY_FAILED, [locked.map(({ id }) => id)]);
      await auditEmails(tx, ctx, RETRIED, rows);
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

const FIND_OF_FORM = findUnsent(`n.form_id = $1::uuid AND n.kind = '${INVITATION}' AND NOT ${IS_REPLACED}`);

const FORM = "SELECT id, listing_id, coalesce(check_in_date, now()), $2::uuid FROM forms WHERE id = $1::uuid";

const ENQUEUE = `
  WITH n AS (${enqueueLaterInvitations(FORM, true)} RETURNING *)
  SELECT ${EMAIL_COLUMNS} FROM n`;

export const sendInvitation = ({ ctx, input: { formId } }: Call<typeof schema.sendInput>): Promise<Email> =>
  ctx.services.db.sqlTransaction(async (tx) => {
    const [form] = await tx.query<FormToInvite>("form-to-invite", LOCK_FORM, [formId]);
    if (!form) throw notFound("form");
    checkNotCancelled(form.status);
    const issue = whyNotInvited(form);
    if (issue) throw invalid([{ field: "formId", issue }]);
    const [unsent] = await tx.query<Email>("find-email-of-form", FIND_OF_FORM, [formId]);
    // A worker may claim it at the same moment.
    if (unsent) return (await retry(tx, ctx, unsent.id)) ?? unsent;
    const [added] = await tx.query<Email>("enqueue-invitation", ENQUEUE, [formId, ctx.correlationId]);
    if (!added) throw notFound("form");
    await audit(tx, ctx, "email.requested", formId, { emailId: added.id });
    return added;
  });
