import type { Log, Services } from "../access/context.js";
import { membershipInScope } from "../access/scope.js";
import { auditBySystemSql } from "../audit.js";
import { countSql } from "../background/activity.js";
import { EVENT_TYPES, TEST_EVENT } from "../constants.js";
import { maskEmails } from "../emails/masking.js";
import { FORM_COLUMNS, type FormRow, projectForm } from "../forms/queries.js";
import { formV1 } from "../forms/schema.js";
import type { Channel, RecordOutcome } from "../outbox/attempt.js";
import { ENDPOINT_DISABLED } from "../outbox/enqueue.js";
import { DELIVERY } from "../outbox/events.js";
import {
  type Claimed,
  FACTS,
  IS_DUE,
  IS_OWN_ATTEMPT,
  nextAttemptAfter,
  type Queue,
  startAttempts,
} from "../outbox/queue.js";
import { type Keys, open } from "../secrets/secrets.js";
import { NIL_UUID } from "../values.js";
import { type EventRow, eventOf } from "./payload.js";
import { type Answer, DeliveryFailed, GONE, type Post } from "./request.js";
import { sign } from "./sign.js";

/** Deliveries that a process sends at the same time. They hold a socket each, but no database connection. */
const CONCURRENCY = 512;
/** Of these per endpoint, so that a slow receiver delays only its own. */
const MAX_PER_ENDPOINT = 4;
/** And per owner, so that many slow endpoints of one owner leave room for others. */
const MAX_PER_OWNER = 32;
/** With the backoff this takes a little more than three days. */
const MAX_ATTEMPTS = 22;
const DISABLE_AFTER = "interval '3 days'";
/** An endpoint that fails gets its next delivery after the pause of this one, at most after this time. */
const MAX_ENDPOINT_PAUSE_SECONDS = 60;
/** Longer than any pause. Failures that are further apart are not taken for one outage. */
const MAX_GAP = "interval '12 hours'";
const MAX_KEPT_CHARACTERS = 1_000;

type ClaimedDelivery = Claimed &
  EventRow & {
    endpointId: string;
    /** The owner's id. */
    owner: string;
    /** The `webhook-id`. */
    eventId: string;
    /** Null if the endpoint is disabled, or was deleted. */
    url: string | null;
    /** Of the endpoint, when the delivery was claimed. */
    revision: number;
    /** Sealed. The newest first; the others also sign. */
    secrets: Uint8Array[];
    /** As it is now; null if it is not in the scope of the endpoint's owner. */
    form: FormRow | null;
  };

/** The webhook deliveries in the outbox. */
export function deliveryChannel(
  { keyring }: Pick<Services, "keyring">,
  post: Post,
  { db, workerId }: Queue,
  log: Log,
): Channel<ClaimedDelivery> {
  const mark = (
    name: string,
    text: string,
    { notificationId }: ClaimedDelivery,
    ...values: (string | number | null)[]
  ) => db.query(name, text, [notificationId, workerId, ...values]);
  return {
    name: "webhooks",
    concurrency: CONCURRENCY,
    maxAttempts: MAX_ATTEMPTS,
    isQuiet: true,

    async claim(free, inFlight) {
      const endpoints = countValues(inFlight.map(({ endpointId }) => endpointId));
      const owners = countValues(inFlight.map(({ owner }) => owner));
      const rows = await db.query<Row>("claim-deliveries", CLAIM, [workerId, free, ...endpoints, ...owners]);
      return rows.map(toClaimed);
    },

    async send(row): Promise<RecordOutcome> {
      const { url } = row;
      if (url === null) return () => mark("mark-delivery-disabled", MARK_DISABLED, row);
      const event = eventOf(row, row.form && projectForm(row.form));
      if (!event) return () => mark("mark-delivery-out-of-scope", MARK_OUT_OF_SCOPE, row);
      const body = JSON.stringify(event);
      const { status, durationMs, ...answer } = await post(url, headersOf(keyring.webhook, row, body), body);
      return () => mark("mark-delivery-sent", MARK_SENT, row, status, keptBody(answer), durationMs, row.revision);
    },

    async recordFailure(row, { reason, isFinal, error }) {
      const { answer, durationMs = null } = error instanceof DeliveryFailed ? error : {};
      const [endpoint] = await db.query<FailingEndpoint>("mark-delivery-failed", MARK_FAILED, [
        row.notificationId,
        workerId,
        reason,
        isFinal,
        answer?.status ?? null,
        answer ? keptBody(answer) : null,
        durationMs,
        answer?.retryAfterSeconds ?? 0,
        answer?.status === GONE,
        // Our own faults say nothing about the endpoint.
        error instanceof DeliveryFailed,
        row.revision,
      ]);
      const { endpointId } = row;
      if (endpoint?.disabledReason)
        log.warn({ endpointId, reason: endpoint.disabledReason }, "webhook endpoint disabled");
      else if (endpoint?.isNew) log.info({ endpointId, reason }, "webhook endpoint fails");
    },
  };
}

interface FailingEndpoint {
  /** It did not fail before. */
  isNew: boolean;
  /** Null unless it was disabled now. */
  disabledReason: string | null;
}

/** The distinct values, and how often each occurs. */
function countValues(values: string[]): [values: string[], counts: number[]] {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [[...counts.keys()], [...counts.values()]];
}

function headersOf(keys: Keys, { endpointId, eventId, secrets: sealed }: ClaimedDelivery, body: string) {
  const secrets = sealed.map((secret) => open(keys, secret, endpointId));
  const timestamp = Math.floor(Date.now() / 1000);
  return {
    "Content-Type": "application/json",
    "Content-Length": String(Buffer.byteLength(body)),
    "User-Agent": "guest-forms",
    "webhook-id": eventId,
    "webhook-timestamp": String(timestamp),
    "webhook-signature": sign(secrets, eventId, timestamp, body),
  };
}

/** The beginning of an answer, without addresses. Postgres rejects NUL. */
const keptBody = ({ body }: Pick<Answer, "body">) =>
  maskEmails(body.slice(0, MAX_KEPT_CHARACTERS).replace(/[^\P{Cc}\n\t]/gu, " "));

type Row = Omit<ClaimedDelivery, "form"> & (({ isInScope: true } & FormRow) | { isInScope: false });

const FORM_FIELDS = Object.keys(formV1.shape) as (keyof FormRow)[];

/** Separates the columns of the form. */
function toClaimed(row: Row): ClaimedDelivery {
  const { notificationId, formId, correlationId, attempts, endpointId, owner, eventId, url, revision, secrets } = row;
  const { eventType, timestamp, sentAt, details, previousListingId } = row;
  const facts = { notificationId, formId, correlationId, attempts };
  const endpoint = { endpointId, owner, url, revision, secrets };
  const event = { eventId, eventType, timestamp, sentAt, details, previousListingId };
  return { ...facts, ...endpoint, ...event, form: row.isInScope ? pickForm(row) : null };
}

const pickForm = (row: FormRow) => Object.fromEntries(FORM_FIELDS.map((field) => [field, row[field]])) as FormRow;

const KNOWN_EVENTS = [...EVENT_TYPES, TEST_EVENT].map((type) => `'${type}'`).join(", ");

/** As in notifications_due_deliveries_idx. */
const IS_DELIVERY = "n.next_attempt_at IS NOT NULL AND n.event_id IS NOT NULL";

const IS_IN_SCOPE = (listingId: string) => `(w.id IS NOT NULL AND w.user_id IS NULL OR EXISTS (
  SELECT FROM memberships m WHERE ${membershipInScope("w.user_id")} AND m.listing_id = ${listingId}))`;

/** More than MAX_PER_ENDPOINT: nothing is sent to it. */
const MAX_PER_DISABLED = MAX_PER_OWNER;

// `pending` reads the first row of each endpoint in the index, however many deliveries wait. $3 to $6 are the endpoints to which
// this process is sending, and their owners, with how much. An endpoint that fails gets one at a time, after a pause. Owners with
// the least in flight come first, and of an owner the endpoints with the least; the rest is left to chance, because with the
// longest wait first a large backlog would delay everybody else's new events. The form is read by the statement that starts the
// attempt: never older than the event, and never out of scope.
const CLAIM = `
  WITH RECURSIVE pending AS (
    (SELECT n.endpoint_id FROM notifications n WHERE ${IS_DELIVERY} ORDER BY n.endpoint_id LIMIT 1)
    UNION ALL
    SELECT (SELECT n.endpoint_id FROM notifications n
      WHERE ${IS_DELIVERY} AND n.endpoint_id > p.endpoint_id ORDER BY n.endpoint_id LIMIT 1)
    FROM pending p WHERE p.endpoint_id IS NOT NULL
  ), endpoint AS (
    SELECT p.endpoint_id, coalesce(w.user_id, '${NIL_UUID}') AS owner, coalesce(busy.running, 0) AS running,
      CASE WHEN w.id IS NULL OR w.disabled_at IS NOT NULL THEN ${MAX_PER_DISABLED}
        WHEN w.paused_until > now() THEN 0
        WHEN w.failing_since IS NOT NULL THEN 1
        ELSE ${MAX_PER_ENDPOINT} END AS slots
    FROM pending p LEFT JOIN LATERAL (SELECT * FROM webhook_endpoints WHERE id = p.endpoint_id LIMIT 1) w ON true
      LEFT JOIN unnest($3::uuid[], $4::int[]) AS busy (endpoint_id, running) ON busy.endpoint_id = p.endpoint_id
    WHERE p.endpoint_id IS NOT NULL
  ), candidate AS (
    SELECT due.id, e.owner, e.running + row_number() OVER (PARTITION BY e.endpoint_id ORDER BY due.next_attempt_at) AS load
    FROM endpoint e CROSS JOIN LATERAL (
      SELECT n.id, n.next_attempt_at FROM notifications n
      WHERE n.endpoint_id = e.endpoint_id AND ${IS_DELIVERY} AND ${IS_DUE}
        AND n.kind = '${DELIVERY}' AND n.event_type IN (${KNOWN_EVENTS})
      ORDER BY n.next_attempt_at LIMIT greatest(0, e.slots - e.running)
    ) due
  ), in_turn AS (
    SELECT c.id, coalesce(busy.running, 0) + row_number() OVER (PARTITION BY c.owner ORDER BY c.load, random()) AS load
    FROM candidate c LEFT JOIN unnest($5::uuid[], $6::int[]) AS busy (owner, running) ON busy.owner = c.owner
  ), due AS MATERIALIZED (
    SELECT n.id FROM notifications n
    WHERE n.id = ANY(ARRAY(
      SELECT t.id FROM in_turn t WHERE t.load <= ${MAX_PER_OWNER} ORDER BY t.load, random() LIMIT $2::int)) AND ${IS_DUE}
    FOR UPDATE SKIP LOCKED
  ), claimed AS (
    ${startAttempts("SELECT id FROM due", "n.*")}
  )
  SELECT ${FACTS}, n.attempts, n.endpoint_id::text AS "endpointId", coalesce(w.user_id, '${NIL_UUID}')::text AS owner,
    n.event_id::text AS "eventId", n.event_type AS "eventType", n.created_at AS timestamp,
    now()::timestamptz(3) AS "sentAt", CASE WHEN w.disabled_at IS NULL THEN w.url END AS url,
    coalesce(w.revision, 0) AS revision, array_prepend(w.secret, ARRAY(
      SELECT p.secret FROM unnest(w.previous_secrets, w.previous_secrets_until) AS p (secret, until)
      WHERE p.until > now())) AS secrets, e.details,
    CASE WHEN ${IS_IN_SCOPE("(e.details ->> 'movedFrom')::uuid")} THEN e.details ->> 'movedFrom' END AS "previousListingId",
    f.id IS NOT NULL AS "isInScope", ${FORM_COLUMNS}
  FROM claimed n LEFT JOIN LATERAL (SELECT * FROM webhook_endpoints WHERE id = n.endpoint_id LIMIT 1) w ON true
    LEFT JOIN audit_entries e ON e.id = n.audit_entry_id
    LEFT JOIN forms f ON f.id = n.form_id AND ${IS_IN_SCOPE("f.listing_id")}`;

const COUNTED = countSql("'delivery.' || state", "ended");

// The attempt does not count.
const endUnsent = (set: string) => `
  WITH ended AS (
    UPDATE notifications n SET ${set}, attempts = attempts - 1, next_attempt_at = NULL WHERE ${IS_OWN_ATTEMPT} RETURNING state)
  ${COUNTED}`;

const MARK_DISABLED = endUnsent("state = 'failed', last_error = 'the endpoint is disabled'");

const MARK_OUT_OF_SCOPE = endUnsent("state = 'out_of_scope', last_error = NULL");

// Also applies if another worker has taken over ($2): it must not be sent again. A delivery that succeeds ends the failing of its
// endpoint.
const MARK_SENT = `
  WITH ended AS (
    UPDATE notifications
    SET state = 'sent', sent_at = now(), next_attempt_at = NULL, last_error = NULL, response_status = $3::int,
      response_body = $4::text, duration_ms = $5::int, worker_id = $2
    WHERE id = $1::bigint AND state <> 'sent'
    RETURNING state, endpoint_id
  ), endpoint AS (
    UPDATE webhook_endpoints w SET failing_since = NULL, paused_until = NULL
    FROM ended WHERE w.id = ended.endpoint_id AND w.failing_since IS NOT NULL AND w.revision = $6::int
  )
  ${COUNTED}`;

// Has no effect if another worker has taken over, nor on an endpoint whose URL has changed or that was enabled meanwhile.
const MARK_FAILED = `
  WITH ended AS (
    UPDATE notifications n
    SET last_error = $3, crashes = 0, state = CASE WHEN $4::boolean THEN 'failed' ELSE 'retrying' END::"NotificationState",
      next_attempt_at = CASE WHEN $4::boolean THEN NULL
        ELSE greatest(${nextAttemptAfter("attempts")}, now() + make_interval(secs => $8::int)) END,
      response_status = $5::int, response_body = $6::text, duration_ms = $7::int
    WHERE ${IS_OWN_ATTEMPT}
    RETURNING state, endpoint_id, correlation_id, attempts
  ), failing AS (
    SELECT w.id, ended.correlation_id, ended.attempts,
      CASE WHEN w.paused_until > now() - ${MAX_GAP} THEN w.failing_since END AS since
    FROM ended JOIN webhook_endpoints w ON w.id = ended.endpoint_id
    WHERE $10::boolean AND w.disabled_at IS NULL AND w.revision = $11::int
    FOR NO KEY UPDATE OF w
  ), endpoint AS (
    UPDATE webhook_endpoints w
    SET failing_since = coalesce(f.since, now()),
      paused_until = now() + make_interval(secs =>
        greatest(least(exp(least(f.attempts, 10)), ${MAX_ENDPOINT_PAUSE_SECONDS}), $8::int)),
      (disabled_at, disabled_reason) = (SELECT now(), CASE WHEN $9::boolean THEN 'gone' ELSE 'failing' END
        WHERE $9::boolean OR f.since < now() - ${DISABLE_AFTER})
    FROM failing f WHERE w.id = f.id
    RETURNING w.id, w.user_id, w.disabled_reason, f.correlation_id, f.since
  ), disabled AS (
    SELECT * FROM endpoint WHERE disabled_reason IS NOT NULL
  ), notified AS (
    INSERT INTO notifications (kind, endpoint_id, check_in_date, correlation_id)
    SELECT '${ENDPOINT_DISABLED}', id, now(), correlation_id FROM disabled WHERE user_id IS NOT NULL
  ), audited AS (
    ${auditBySystemSql(
      "webhook.disabled",
      "SELECT id, correlation_id, jsonb_build_object('reason', disabled_reason) FROM disabled",
    )}
  ), counted AS (${COUNTED})
  SELECT since IS NULL AS "isNew", disabled_reason AS "disabledReason" FROM endpoint`;
