import type { Log, Services } from "../access/context.js";
import type { Sql } from "../database/db.js";
import { open } from "../encryption.js";
import type { ActivityCounts } from "../outbox/activity.js";
import type { Channel } from "../outbox/attempt.js";
import { type Claimed, claimSql, JOIN_BUSY_QUEUES } from "../outbox/claim.js";
import { ENDPOINT_DISABLED, INVITATION } from "../outbox/enqueue.js";
import { type Outcome, recordSql } from "../outbox/record.js";
import { factsSql } from "../outbox/rows.js";
import { ERASED_EMAIL } from "../users/store.js";
import { composeEndpointDisabled, type DisabledEndpoint } from "./endpoint-disabled.js";
import { auditExpired, NEEDS_NO_INVITATION } from "./expiry.js";
import { INVITATION_FACTS } from "./facts.js";
import { composeInvitation, type Notice } from "./invitation.js";
import type { Mailer } from "./mailer.js";
import { maskEmail } from "./masking.js";
import { messageIdOf, type NamedEmail } from "./message-id.js";
import type { Message } from "./sender.js";
import type { Templates } from "./templates.js";

/** With the backoff this takes four days, as RFC 5321 (4.5.4.1) recommends. */
const MAX_ATTEMPTS = 25;

/** An email, with the form and the endpoint that it may be about. */
type ClaimedEmail = Claimed &
  NamedEmail &
  Omit<Notice, "to"> & {
    /** Sealed. Null if the form or its address no longer exists. */
    guestEmail: Uint8Array | null;
    isExpired: boolean;
    endpointId: string | null;
    /** Null if the endpoint was enabled or deleted since, or if its owner is erased. */
    ownerEmail: string | null;
  } & Omit<DisabledEndpoint, "to">;

/** How an attempt to send an email has ended. */
interface EmailOutcome extends Outcome {
  /** Undefined if no attempt was made. */
  messageId?: string;
  /** The mail server's answer, if it accepted the email. */
  reply?: string | null;
}

interface EmailDeps {
  services: Services;
  templates: Templates;
  mailer: Mailer;
  workerId: string;
  counts: ActivityCounts;
  log: Log;
}

/** The emails in the outbox. */
export function emailChannel(deps: EmailDeps): Channel<ClaimedEmail, EmailOutcome> {
  const { services, workerId, counts } = deps;
  const { db, settings } = services;
  return {
    table: "emails",
    concurrency: settings.WORKER_CONCURRENCY,
    maxAttempts: MAX_ATTEMPTS,
    async claim(values) {
      const rows = await db.query<ClaimedEmail>("claim-emails", CLAIM, [workerId, ...values]);
      return rows.map((row) => {
        const messageId = messageIdOf(settings, row);
        return { ...row, messageId, facts: { ...row.facts, messageId } };
      });
    },
    send: async (row) => ({ id: row.id, reason: null, ...(await send(deps, row)) }),
    toFailure: ({ messageId }, failure) => ({ ...failure, messageId }),
    record: (outcomes) => record(db, workerId, outcomes, counts),
  };
}

// The form is read by the statement that starts the attempt, so that what is sent is never out of date. The nearest stay comes first;
// one that began less than a day ago counts as now, because the guest may still be at the door; older ones come last.
const CLAIM = claimSql({
  table: "emails",
  queue: "tenant_id",
  queues: `
    SELECT p.queue_id, p.queue_id AS tenant_id, coalesce(busy.running, 0) AS running, $2::int AS slots
    FROM pending p ${JOIN_BUSY_QUEUES} WHERE p.queue_id IS NOT NULL`,
  ranges: [
    ["n.is_urgent", "n.check_in_date, n.id"],
    ["NOT n.is_urgent AND n.check_in_date > now() - interval '1 day'", "n.check_in_date, n.id"],
    ["NOT n.is_urgent AND n.check_in_date <= now() - interval '1 day'", "n.check_in_date DESC, n.id DESC"],
  ].map(([condition, order]) => [`${condition} AND n.kind IN ('${INVITATION}', '${ENDPOINT_DISABLED}')`, `${order}`]),
  maxPerTenant: 1_000_000,
  read: `
  SELECT n.id::text, n.attempts, n.tenant_id::text AS "queueId", n.tenant_id::text AS "tenantId", ${factsSql("emails")} AS facts,
    n.kind, n.form_id::text AS "formId", n.endpoint_id::text AS "endpointId",
    ${INVITATION_FACTS}, f.guest_email AS "guestEmail", ${NEEDS_NO_INVITATION} AS "isExpired",
    CASE WHEN n.created_at > f.created_at THEN n.id::text END AS "repeatId",
    w.url, w.disabled_at AS "disabledAt", w.disabled_reason AS reason, o.email AS "ownerEmail"
  FROM claimed n
    LEFT JOIN forms f ON f.id = n.form_id LEFT JOIN listings l ON l.id = f.listing_id
    LEFT JOIN webhook_endpoints w ON w.id = n.endpoint_id AND w.disabled_at = n.created_at
    LEFT JOIN users o ON o.id = w.user_id AND o.email <> o.${ERASED_EMAIL}`,
});

type Sent = Pick<EmailOutcome, "state" | "messageId" | "reply">;

/** Sends an email, unless nobody needs it anymore. */
const send = (deps: EmailDeps, row: ClaimedEmail): Promise<Sent> =>
  row.kind === INVITATION ? sendInvitation(deps, row) : notifyOwner(deps, row);

async function sendInvitation(deps: EmailDeps, row: ClaimedEmail): Promise<Sent> {
  const { services, templates, log } = deps;
  const { formId, guestEmail } = row;
  if (row.isExpired) {
    log.info(row.facts, "email expired: the stay is over, the form is past SENT, or another invitation followed");
    return { state: "expired" };
  }
  if (!formId || !guestEmail) {
    log.info(row.facts, "email dropped: the form or its address no longer exists");
    return { state: "deleted" };
  }
  const to = open(services.keyring.email, guestEmail, formId);
  return sendMessage(deps, row, composeInvitation(services.settings, templates, { ...row, to }), to);
}

/** Notifies the owner of a webhook endpoint that it was disabled. */
async function notifyOwner(deps: EmailDeps, row: ClaimedEmail): Promise<Sent> {
  const { url, disabledAt, reason, messageId, ownerEmail: to } = row;
  // Somebody has dealt with it.
  if (!to || reason === "manual") return { state: "deleted" };
  return sendMessage(
    deps,
    row,
    composeEndpointDisabled(deps.services.settings, { url, disabledAt, reason, to, messageId }),
    to,
  );
}

async function sendMessage(
  { mailer, log }: EmailDeps,
  { facts, messageId }: ClaimedEmail,
  message: Message,
  to: string,
): Promise<Sent> {
  const reply = await mailer.send(message, to);
  log.info({ ...facts, to: maskEmail(to), reply }, mailer.isPrinter ? "email printed" : "email sent");
  return { state: "sent", messageId, reply };
}

const RECORD = recordSql({
  table: "emails",
  deadline: "'infinity'::timestamptz",
  fields: { messageId: "text", reply: "text" },
  set: `, message_id = coalesce(p."messageId", n.message_id), reply = p.reply`,
  also: `, audited AS (${auditExpired("recorded n WHERE n.state = 'expired'")})`,
});

async function record(db: Sql, workerId: string, outcomes: EmailOutcome[], counts: ActivityCounts): Promise<void> {
  const [recorded] = await db.query<{ states: Record<"sent" | "retrying" | "failed" | "expired", number> }>(
    "record-emails",
    RECORD,
    [workerId, JSON.stringify(outcomes)],
  );
  for (const [state, count] of Object.entries(recorded?.states ?? {}) as ["sent", number][])
    counts.add(`email.${state}`, count);
}
