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
import type { Templates } from "./templates.js";

/** With the backoff this takes four days, as RFC 5321 (4.5.4.1) recommends. */
const MAX_ATTEMPTS = 25;

/** An email, with the form and the endpoint that it may be about. */
type ClaimedEmail = Claimed &
  Omit<Notice, "formId" | "to"> & {
    kind: string;
    formId: string | null;
    /** Sealed. Null if the form or its address no longer exists. */
    guestEmail: Uint8Array | null;
    isExpired: boolean;
    endpointId: string | null;
    /** Null if the endpoint was enabled or deleted since, or if its owner is erased. */
    ownerEmail: string | null;
  } & Omit<DisabledEndpoint, "to">;

interface EmailDeps {
  services: Services;
  templates: Templates;
  mailer: Mailer;
  workerId: string;
  counts: ActivityCounts;
  log: Log;
}

/** The emails in the outbox. */
export function emailChannel(deps: EmailDeps): Channel<ClaimedEmail> {
  const { services, workerId, counts } = deps;
  const { db } = services;
  return {
    table: "emails",
    concurrency: services.settings.WORKER_CONCURRENCY,
    maxAttempts: MAX_ATTEMPTS,
    claim: (values) => db.query<ClaimedEmail>("claim-emails", CLAIM, [workerId, ...values]),
    send: async (row) => ({ id: row.id, reason: null, state: await send(deps, row) }),
    toFailure: (_row, failure) => failure,
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

/** Sends an email, unless nobody needs it anymore. Returns its next state. */
const send = (deps: EmailDeps, row: ClaimedEmail): Promise<string> =>
  row.kind === INVITATION ? sendInvitation(deps, row) : notifyOwner(deps, row);

async function sendInvitation({ services, templates, mailer, log }: EmailDeps, row: ClaimedEmail): Promise<string> {
  const { formId, guestEmail } = row;
  if (row.isExpired) {
    log.info(row.facts, "email expired: the stay is over, the form is past SENT, or another invitation followed");
    return "expired";
  }
  if (!formId || !guestEmail) {
    log.info(row.facts, "email dropped: the form or its address no longer exists");
    return "deleted";
  }
  const to = open(services.keyring.email, guestEmail, formId);
  await mailer.send(composeInvitation(services.settings, templates, { ...row, formId, to }), to);
  log.info({ ...row.facts, to: maskEmail(to) }, sentMessage(mailer));
  return "sent";
}

/** Notifies the owner of a webhook endpoint that it was disabled. */
async function notifyOwner({ services, mailer, log }: EmailDeps, row: ClaimedEmail): Promise<string> {
  const { url, disabledAt, reason, ownerEmail: to } = row;
  if (!to) return "deleted";
  await mailer.send(composeEndpointDisabled(services.settings, { url, disabledAt, reason, to, emailId: row.id }), to);
  log.info({ ...row.facts, to: maskEmail(to) }, sentMessage(mailer));
  return "sent";
}

const sentMessage = ({ isPrinter }: Mailer) => (isPrinter ? "email printed" : "email sent");

const RECORD = recordSql({
  table: "emails",
  deadline: "'infinity'::timestamptz",
  also: `, audited AS (${auditExpired("recorded n WHERE n.state = 'expired'")})`,
});

async function record(db: Sql, workerId: string, outcomes: Outcome[], counts: ActivityCounts): Promise<void> {
  const [recorded] = await db.query<{ states: Record<"sent" | "retrying" | "failed" | "expired", number> }>(
    "record-emails",
    RECORD,
    [workerId, JSON.stringify(outcomes)],
  );
  for (const [state, count] of Object.entries(recorded?.states ?? {}) as ["sent", number][])
    counts.add(`email.${state}`, count);
}
