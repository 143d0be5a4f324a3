import type { Call, OperatorContext, Services } from "../access/context.js";
import { tryOpen } from "../encryption.js";
import { invalid, notFound } from "../errors.js";
import { findFormsByAddress, SEALED, type Sealed } from "../forms/find-by-address.js";
import { INVITATION } from "../outbox/enqueue.js";
import { emailAddress, inGroups, publicIdsIn } from "../values.js";
import { NEEDS_NO_INVITATION } from "./expiry.js";
import { toAnswer } from "./masking.js";
import { parseMessageId } from "./message-id.js";
import type * as schema from "./schema.js";
import type { Email } from "./schema.js";
import { auditEmails, EMAIL_COLUMNS, EMAIL_ID } from "./store.js";

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
  UPDATE emails n SET state = 'bounced', last_error = coalesce($2, CASE WHEN n.state = 'bounced' THEN n.last_error END, 'it bounced')
  WHERE n.id = ANY($1::bigint[]) AND n.state::text IN ('sent', 'bounced')
  RETURNING ${EMAIL_COLUMNS}`;

const SEALED_ADDRESS = `SELECT ${SEALED} FROM forms f WHERE f.id = $1::uuid AND f.guest_email IS NOT NULL`;

async function readAddress({ db, keyring }: Services, formId: string | null): Promise<string | undefined> {
  const [row] = await db.query<Sealed>("sealed-address", SEALED_ADDRESS, [formId]);
  return row && tryOpen(keyring.email, row.guest_email, row.id)?.text;
}

interface Found {
  ids: string[];
  unreadable: number;
  /** The guest's, as it was given or is stored. */
  address: string | undefined;
}

async function findEmails(ctx: OperatorContext, given: string): Promise<Found> {
  const { db } = ctx.services;
  const message = parseMessageId(given);
  const toIds = (rows: { id: string }[]) => rows.map(({ id }) => id);
  if (message) {
    const values = [message.formId, message.emailId];
    const ids = toIds(await db.query("emails-of-message", EMAILS_OF_MESSAGE, values));
    return { ids, unreadable: 0, address: await readAddress(ctx.services, message.formId) };
  }
  const address = emailAddress.safeParse(given);
  if (!address.success)
    throw invalid([{ field: "email", issue: "must be a Message-ID of this service, or an email address" }]);
  const { ids, unreadable } = await findFormsByAddress(ctx, address.data);
  const found = toIds(await db.query("last-emails-of-forms", LAST_OF_FORMS, [ids]));
  return { ids: found, unreadable, address: address.data };
}

const QUOTED_LINKS = `SELECT public_id AS "publicId" FROM forms WHERE public_id = ANY($1::text[])`;

/** What came back, without the guest's address and links: it may be from a time when links were different. */
async function redactReason(ctx: OperatorContext, reason: string, address = ""): Promise<string> {
  const { db, settings } = ctx.services;
  const quoted = await db.query<{ publicId: string }>("quoted-links", QUOTED_LINKS, [publicIdsIn(reason)]);
  const text = quoted.reduce((left, { publicId }) => left.replaceAll(publicId, "[link]"), reason);
  return toAnswer(text, address, settings.FORM_URL_TEMPLATE ?? "");
}

/** Records that emails which the mail server had accepted came back. */
export async function markBounced({ ctx, input }: Call<typeof schema.bouncedInput, OperatorContext>) {
  const { ids, unreadable, address } = await findEmails(ctx, input.email);
  const reason = input.reason === undefined ? null : await redactReason(ctx, input.reason, address);
  const emails: Email[] = [];
  for (const group of inGroups(ids, BATCH)) {
    const marked = await ctx.services.db.sqlTransaction(async (tx) => {
      const rows = await tx.query<Email>("mark-bounced", MARK_BOUNCED, [group, reason]);
      await auditEmails(tx, ctx, "email.bounced", rows);
      return rows;
    }, ctx.signal);
    emails.push(...marked);
  }
  return { emails, unreadable };
}
