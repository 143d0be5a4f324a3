import type { Log, Services } from "../access/context.js";
import { countSql } from "../background/activity.js";
import { composeEndpointDisabled, type DisabledEndpoint } from "../emails/endpoint-disabled.js";
import { INVITATION_FACTS } from "../emails/facts.js";
import { composeInvitation, type Notice } from "../emails/invitation.js";
import { maskEmail } from "../emails/masking.js";
import type { Templates } from "../emails/templates.js";
import type { Channel, RecordOutcome } from "../outbox/attempt.js";
import { ENDPOINT_DISABLED, INVITATION } from "../outbox/enqueue.js";
import {
  type Claimed,
  FACTS,
  IS_DUE,
  IS_OWN_ATTEMPT,
  nextAttemptAfter,
  type Queue,
  startAttempts,
} from "../outbox/queue.js";
import { open } from "../secrets/secrets.js";
import { ERASED_EMAIL } from "../users/store.js";
import { auditExpired, NEEDS_NO_INVITATION } from "./expiry.js";
import type { Mailer } from "./mailer.js";

interface ClaimedEmail extends Claimed {
  kind: string;
}

/** With the backoff this takes four days, as RFC 5321 (4.5.4.1) recommends. */
const MAX_ATTEMPTS = 25;

interface EmailDeps {
  services: Services;
  templates: Templates;
  mailer: Mailer;
  queue: Queue;
  log: Log;
}

/** The emails in the outbox. */
export function emailChannel(deps: EmailDeps): Channel<ClaimedEmail> {
  const { services, queue } = deps;
  const { db, workerId } = queue;
  return {
    name: "emails",
    concurrency: services.settings.WORKER_CONCURRENCY,
    maxAttempts: MAX_ATTEMPTS,
    claim: (free) => db.query<ClaimedEmail>("claim-notifications", CLAIM, [workerId, free]),
    send: (row) => (row.kind === INVITATION ? sendInvitation(deps, row) : notifyOwner(deps, row)),
    recordFailure: ({ notificationId }, { reason, isFinal }) =>
      db.query("mark-notification-failed", MARK_FAILED, [notificationId, workerId, reason, isFinal]),
  };
}

// Reads notifications_due_emails_idx in order until enough are due, that of the nearest stay first.
const CLAIM = startAttempts(
  `SELECT n.id FROM notifications n
   WHERE ${IS_DUE} AND n.event_id IS NULL AND n.kind IN ('${INVITATION}', '${ENDPOINT_DISABLED}')
   ORDER BY n.check_in_date, n.id LIMIT $2::int FOR UPDATE SKIP LOCKED`,
  `${FACTS}, n.endpoint_id::text AS "endpointId", n.kind, n.attempts`,
);

/** Also counts the outcome, in the same statement. */
const withOutcome = (update: string) =>
  `WITH ended AS (${update} RETURNING state) ${countSql("'notification.' || state", "ended")}`;

// Also applies if another worker has taken over: the message must not be sent again.
const MARK_SENT = withOutcome(`
  UPDATE notifications SET state = 'sent', sent_at = now(), next_attempt_at = NULL
  WHERE id = $1::bigint AND state <> 'sent'`);

// The attempt does not count. Has no effect if another worker has taken over: it expires it, too.
const MARK_EXPIRED = `
  WITH expired AS (
    UPDATE notifications n SET state = 'expired', attempts = attempts - 1, next_attempt_at = NULL
    WHERE ${IS_OWN_ATTEMPT}
    RETURNING id, form_id, correlation_id)
  ${auditExpired("expired")}`;

// Has no effect if another worker has taken over.
const MARK_FAILED = withOutcome(`
  UPDATE notifications n
  SET last_error = $3, crashes = 0, state = CASE WHEN $4::boolean THEN 'failed' ELSE 'retrying' END::"NotificationState",
    next_attempt_at = CASE WHEN $4::boolean THEN NULL ELSE ${nextAttemptAfter("attempts")} END
  WHERE ${IS_OWN_ATTEMPT}`);

const markSent =
  ({ db }: Queue, id: string): RecordOutcome =>
  () =>
    db.query("mark-notification-sent", MARK_SENT, [id]);

/** Removes a notification that no longer has a recipient. */
const remove =
  ({ db }: Queue, id: string): RecordOutcome =>
  () =>
    db.query("remove-notification", "DELETE FROM notifications WHERE id = $1::bigint", [id]);

/** Sends the email about a form, unless it is too late. */
async function sendInvitation(
  { services, templates, mailer, queue, log }: EmailDeps,
  { notificationId, formId }: ClaimedEmail,
): Promise<RecordOutcome> {
  const { db, workerId } = queue;
  const [stored] = await db.query<StoredForm>("form-to-notify", READ_FORM, [formId, notificationId]);
  if (!formId || !stored?.guestEmail) {
    log.info({ formId }, "notification dropped: the form or its address no longer exists");
    return remove(queue, notificationId);
  }
  const { guestEmail, isExpired, ...form } = stored;
  if (isExpired) {
    log.info({ formId }, "notification expired: the stay is over or the form is past SENT");
    return () => db.query("mark-notification-expired", MARK_EXPIRED, [notificationId, workerId]);
  }
  const to = open(services.keyring.email, guestEmail, formId);
  await mailer.send(composeInvitation(services.settings, templates, { ...form, formId, to }), to);
  log.info({ formId, to: maskEmail(to) }, sentMessage(mailer));
  return markSent(queue, notificationId);
}

const READ_FORM = `
  SELECT ${INVITATION_FACTS}, f.guest_email AS "guestEmail", ${NEEDS_NO_INVITATION} AS "isExpired",
    (SELECT n.id::text FROM notifications n WHERE n.id = $2::bigint AND n.created_at > f.created_at) AS "repeatId"
  FROM forms f JOIN listings l ON l.id = f.listing_id
  WHERE f.id = $1::uuid`;

type StoredForm = Omit<Notice, "formId" | "to"> & {
  guestEmail: Uint8Array | null;
  isExpired: boolean;
};

/** Notifies the owner of a webhook endpoint that it was disabled. */
async function notifyOwner(
  { services, mailer, queue, log }: EmailDeps,
  { notificationId, endpointId }: ClaimedEmail,
): Promise<RecordOutcome> {
  const [endpoint] = await services.db.query<DisabledEndpoint>("endpoint-to-notify", READ_ENDPOINT, [
    endpointId,
    notificationId,
  ]);
  if (!endpoint) return remove(queue, notificationId);
  await mailer.send(composeEndpointDisabled(services.settings, { ...endpoint, notificationId }), endpoint.to);
  log.info({ endpointId, to: maskEmail(endpoint.to) }, sentMessage(mailer));
  return markSent(queue, notificationId);
}

// None if it was enabled or deleted since, or if its owner is erased.
const READ_ENDPOINT = `
  SELECT w.url, w.disabled_at AS "disabledAt", w.disabled_reason AS reason, u.email AS "to"
  FROM webhook_endpoints w JOIN users u ON u.id = w.user_id JOIN notifications n ON n.endpoint_id = w.id
  WHERE w.id = $1::uuid AND n.id = $2::bigint AND w.disabled_at = n.created_at AND u.email <> u.${ERASED_EMAIL}`;

const sentMessage = ({ isPrinter }: Mailer) => (isPrinter ? "notification printed" : "notification sent");
