import type { Call, Context, OperatorContext } from "../access/context.js";
import { audit } from "../audit-trail/audit.js";
import type { Sql } from "../database/db.js";
import { invalid, notFound } from "../errors.js";
import { findFormsByAddress } from "../forms/find-by-address.js";
import { INVITATION } from "../outbox/enqueue.js";
import { emailAddress } from "../values.js";
import { NEEDS_NO_INVITATION } from "./expiry.js";
import { toAnswer } from "./masking.js";
import { parseMessageId } from "./message-id.js";
import type * as schema from "./schema.js";
import type { Email } from "./schema.js";
import { EMAIL_COLUMNS, EMAIL_ID } from "./store.js";

// What operators do about emails that have not reached anybody: they dismiss those that failed or bounced, and record those that
// the mail server had accepted and that came back later.

const dismiss = (emails: string) => `
  UPDATE emails n SET state = 'dismissed'
  WHERE n.id = ANY(ARRAY(${emails})) AND n.state::text IN ('failed', 'bounced')
  RETURNING ${EMAIL_COLUMNS}`;

const DISMISS = dismiss("SELECT $1::bigint");

/** Emails per transaction. */
const BATCH = 500;

const DISMISS_BATCH = dismiss(`
  SELECT id FROM emails WHERE state = ANY('{failed,bounced}'::"EmailState"[]) AND state <> 'sent' AND id > $1::bigint
  ORDER BY id LIMIT ${BATCH} FOR NO KEY UPDATE SKIP LOCKED`);

const auditEmails = (tx: Sql, ctx: Context, action: string, rows: readonly Email[]) =>
  audit(
    tx,
    ctx,
    action,
    rows.flatMap(({ formId, endpointId }) => formId ?? endpointId ?? []),
    rows.map(({ id }) => ({ emailId: id })),
  );

export async function dismissEmail({ ctx, input: { id } }: Call<typeof schema.emailIdInput>): Promise<Email> {
  if (!EMAIL_ID.test(id)) throw notFound();
  return ctx.services.db.sqlTransaction(async (tx) => {
    const [row] = await tx.query<Email>("dismiss-email", DISMISS, [id]);
    if (!row) throw notFound();
    await auditEmails(tx, ctx, "email.dismissed", [row]);
    return row;
  });
}

/** After a failure, the emails of some batches are dismissed. */
export async function dismissEmails({ ctx }: { ctx: OperatorContext }) {
  let dismissed = 0;
  for (let last = "0", isFull = true; isFull; ) {
    const rows = await ctx.services.db.sqlTransaction(async (tx) => {
      const batch = await tx.query<Email>("dismiss-emails", DISMISS_BATCH, [last]);
      await auditEmails(tx, ctx, "email.dismissed", batch);
      return batch;
    }, ctx.signal);
    dismissed += rows.length;
    isFull = rows.length === BATCH;
    last = rows.reduce((highest, { id }) => (BigInt(id) > BigInt(highest) ? id : highest), last);
  }
  return { dismissed };
}

const EMAILS_OF_MESSAGE = `
  SELECT n.id::text FROM emails n
  WHERE n.form_id = $1::uuid AND n.kind = '${INVITATION}' AND CASE WHEN $2::bigint IS NULL
    THEN n.created_at <= (SELECT f.created_at FROM forms f WHERE f.id = n.form_id) ELSE n.id = $2::bigint END
  UNION ALL SELECT n.id::text FROM emails n WHERE $1::uuid IS NULL AND n.id = $2::bigint AND n.endpoint_id IS NOT NULL`;

const LAST_OF_FORMS = `
  SELECT n.id::text FROM emails n JOIN forms f ON f.id = n.form_id
  WHERE n.form_id = ANY($1::uuid[]) AND n.kind = '${INVITATION}' AND NOT ${NEEDS_NO_INVITATION}`;

const MARK_BOUNCED = `
  UPDATE emails n SET state = 'bounced', last_error = coalesce($2, n.last_error, 'it bounced')
  WHERE n.id = ANY($1::bigint[]) AND n.state::text IN ('sent', 'bounced')
  RETURNING ${EMAIL_COLUMNS}`;

interface Found {
  ids: string[];
  unreadable: number;
  /** The guest's address, if it was given. */
  address?: string;
}

async function findEmails(ctx: OperatorContext, given: string): Promise<Found> {
  const { db } = ctx.services;
  const message = parseMessageId(given);
  const toIds = (rows: { id: string }[]) => rows.map(({ id }) => id);
  if (message) {
    const values = [message.formId, message.emailId];
    return { ids: toIds(await db.query("emails-of-message", EMAILS_OF_MESSAGE, values)), unreadable: 0 };
  }
  const address = emailAddress.safeParse(given);
  if (!address.success)
    throw invalid([{ field: "email", issue: "must be a Message-ID of this service, or an email address" }]);
  const { ids, unreadable } = await findFormsByAddress(ctx, address.data);
  const found = toIds(await db.query("last-emails-of-forms", LAST_OF_FORMS, [ids]));
  return { ids: found, unreadable, address: address.data };
}

/** Records that emails which the mail server had accepted came back. */
export async function markBounced({ ctx, input }: Call<typeof schema.bouncedInput, OperatorContext>) {
  const { ids, unreadable, address } = await findEmails(ctx, input.email);
  const template = ctx.services.settings.FORM_URL_TEMPLATE ?? "";
  const reason = input.reason === undefined ? null : toAnswer(input.reason, address ?? "", template);
  const emails = await ctx.services.db.sqlTransaction(async (tx) => {
    const rows = await tx.query<Email>("mark-bounced", MARK_BOUNCED, [ids, reason]);
    await auditEmails(tx, ctx, "email.bounced", rows);
    return rows;
  });
  return { emails, unreadable };
}
