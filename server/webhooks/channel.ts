import type { Log, Services } from "../access/context.js";
import { auditBySystemSql } from "../audit.js";
import { countSql } from "../background/activity.js";
import { EVENT_TYPES, TEST_EVENT } from "../constants.js";
import { FORM_COLUMNS, type FormRow, projectForm } from "../forms/queries.js";
import { maskEmails } from "../notifications/compose.js";
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
import { type EventRow, eventOf, testEvent } from "./payload.js";
import { type Answer, DeliveryFailed, GONE, type Post } from "./request.js";
import { sign } from "./sign.js";

/** Deliveries that a process sends at the same time. They hold a socket each, but no database connection. */
const CONCURRENCY = 512;
/** Of these per endpoint, so that a slow receiver delays only its own. */
const MAX_PER_ENDPOINT = 4;
/** With the backoff this takes a little more than three days. */
const MAX_ATTEMPTS = 22;
const DISABLE_AFTER = "interval '3 days'";
const MAX_KEPT_CHARACTERS = 1_000;

type ClaimedDelivery = Claimed &
  EventRow & {
    endpointId: string;
    /** The `webhook-id`. */
    eventId: string;
    url: string;
    isDisabled: boolean;
    /** Sealed, like the next. */
    secret: Uint8Array;
    /** Null unless it signs too. */
    previousSecret: Uint8Array | null;
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
      const running = new Map<string, number>();
      for (const { endpointId } of inFlight) running.set(endpointId, (running.get(endpointId) ?? 0) + 1);
      const busy = [[...running.keys()], [...running.values()]];
      const rows = await db.query<Row>("claim-deliveries", CLAIM, [workerId, free, ...busy]);
      return rows.map(toClaimed);
    },

    async send(row): Promise<RecordOutcome> {
      if (row.isDisabled) return () => mark("mark-delivery-disabled", MARK_DISABLED, row);
      if (row.eventType !== TEST_EVENT && !row.form)
        return () => mark("mark-delivery-out-of-scope", MARK_OUT_OF_SCOPE, row);
      const event = row.form ? eventOf(row, projectForm(row.form)) : testEvent(row);
      const body = JSON.stringify(event);
      const { status, durationMs, ...answer } = await post(row.url, headersOf(keyring.webhook, row, body), body);
      return () => mark("mark-delivery-sent", MARK_SENT, row, status, keptBody(answer), durationMs);
    },

    async recordFailure(row, { reason, isFinal, error }) {
      const { answer, durationMs = null } = error instanceof DeliveryFailed ? error : {};
      const [endpoint] = await db.query<ChangedEndpoint>("mark-delivery-failed", MARK_FAILED, [
        row.notificationId,
        workerId,
        reason,
        isFinal,
        answer?.status ?? null,
        answer ? keptBody(answer) : null,
        durationMs,
        answer?.retryAfterSeconds ?? 0,
        answer?.status === GONE,
      ]);
      if (!endpoint) return;
      const { endpointId } = row;
      if (endpoint.disabledReason)
        log.warn({ endpointId, reason: endpoint.disabledReason }, "webhook endpoint disabled");
      else log.info({ endpointId, reason }, "webhook endpoint fails");
    },
  };
}

interface ChangedEndpoint {
  /** Null if it only began to fail. */
  disabledReason: string | null;
}

function headersOf(keys: Keys, { endpointId, eventId, secret, previousSecret }: ClaimedDelivery, body: string) {
  const secrets = [secret, previousSecret].flatMap((sealed) => (sealed ? [open(keys, sealed, endpointId)] : []));
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

type Row = Omit<ClaimedDelivery, "form"> & FormRow;

/** Separates the columns of the form, which are null if there is none. */
function toClaimed({
  notificationId,
  formId,
  correlationId,
  attempts,
  endpointId,
  eventId,
  eventType,
  timestamp,
  sentAt,
  url,
  isDisabled,
  secret,
  previousSecret,
  details,
  previousListingId,
  ...form
}: Row): ClaimedDelivery {
  const claimed = {
    notificationId,
    formId,
    correlationId,
    attempts,
    endpointId,
    eventId,
    eventType,
    timestamp,
    sentAt,
  };
  const endpoint = { url, isDisabled, secret, previousSecret };
  return { ...claimed, ...endpoint, details, previousListingId, form: form.id === null ? null : form };
}

const KNOWN_EVENTS = [...EVENT_TYPES, TEST_EVENT].map((type) => `'${type}'`).join(", ");

/** As in notifications_due_deliveries_idx. */
const IS_DELIVERY = "n.next_attempt_at IS NOT NULL AND n.event_id IS NOT NULL";

const IS_IN_SCOPE = (listingId: string) => `(w.user_id IS NULL OR EXISTS (
  SELECT FROM memberships m WHERE m.user_id = w.user_id AND m.listing_id = ${listingId} AND grants_scope(m.role)))`;

// `pending` reads the first row of each endpoint in the index, however many deliveries wait. $3 and $4 are the endpoints to
// which this process is sending, and how much. An endpoint that fails gets one at a time. Those with the fewest in flight come
// first. The form is read by the statement that starts the attempt: never older than the event, and never out of scope.
const CLAIM = `
  WITH RECURSIVE pending AS (
    (SELECT n.endpoint_id FROM notifications n WHERE ${IS_DELIVERY} ORDER BY n.endpoint_id LIMIT 1)
    UNION ALL
    SELECT (SELECT n.endpoint_id FROM notifications n
      WHERE ${IS_DELIVERY} AND n.endpoint_id > p.endpoint_id ORDER BY n.endpoint_id LIMIT 1)
    FROM pending p WHERE p.endpoint_id IS NOT NULL
  ), endpoint AS (
    SELECT w.*, coalesce(busy.running, 0) AS running
    FROM pending p CROSS JOIN LATERAL (SELECT * FROM webhook_endpoints WHERE id = p.endpoint_id LIMIT 1) w
      LEFT JOIN unnest($3::uuid[], $4::int[]) AS busy (endpoint_id, running) ON busy.endpoint_id = w.id
  ), due AS MATERIALIZED (
    SELECT d.id
    FROM endpoint w CROSS JOIN LATERAL (
      SELECT n.id, n.next_attempt_at FROM notifications n
      WHERE n.endpoint_id = w.id AND ${IS_DELIVERY} AND ${IS_DUE}
        AND n.kind = '${DELIVERY}' AND n.event_type IN (${KNOWN_EVENTS})
      ORDER BY n.next_attempt_at
      LIMIT greatest(0, CASE WHEN w.failing_since IS NULL THEN ${MAX_PER_ENDPOINT} ELSE 1 END - w.running)
      FOR UPDATE SKIP LOCKED
    ) d
    ORDER BY w.running, d.next_attempt_at LIMIT $2::int
  ), claimed AS (
    ${startAttempts("SELECT id FROM due", "n.*")}
  )
  SELECT ${FACTS}, n.attempts, n.endpoint_id::text AS "endpointId", n.event_id::text AS "eventId",
    n.event_type AS "eventType", n.created_at AS timestamp, now()::timestamptz(3) AS "sentAt", w.url, w.disabled_at IS NOT NULL AS "isDisabled", w.secret,
    CASE WHEN w.previous_secret_until > now() THEN w.previous_secret END AS "previousSecret", e.details,
    CASE WHEN ${IS_IN_SCOPE("(e.details ->> 'movedFrom')::uuid")} THEN e.details ->> 'movedFrom' END AS "previousListingId",
    ${FORM_COLUMNS}
  FROM claimed n CROSS JOIN LATERAL (SELECT * FROM webhook_endpoints WHERE id = n.endpoint_id LIMIT 1) w
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
    UPDATE webhook_endpoints w SET failing_since = NULL
    FROM ended WHERE w.id = ended.endpoint_id AND w.failing_since IS NOT NULL
  )
  ${COUNTED}`;

// Has no effect if another worker has taken over. Changes the endpoint only when it begins to fail, and when it is disabled.
const MARK_FAILED = `
  WITH ended AS (
    UPDATE notifications n
    SET last_error = $3, crashes = 0, state = CASE WHEN $4::boolean THEN 'failed' ELSE 'retrying' END::"NotificationState",
      next_attempt_at = CASE WHEN $4::boolean THEN NULL
        ELSE greatest(${nextAttemptAfter("attempts")}, now() + make_interval(secs => $8::int)) END,
      response_status = $5::int, response_body = $6::text, duration_ms = $7::int
    WHERE ${IS_OWN_ATTEMPT}
    RETURNING state, endpoint_id, correlation_id
  ), endpoint AS (
    UPDATE webhook_endpoints w
    SET failing_since = coalesce(failing_since, now()),
      (disabled_at, disabled_reason) = (SELECT now(), CASE WHEN $9::boolean THEN 'gone' ELSE 'failing' END
        WHERE $9::boolean OR w.failing_since < now() - ${DISABLE_AFTER})
    FROM ended
    WHERE w.id = ended.endpoint_id AND w.disabled_at IS NULL
      AND ($9::boolean OR w.failing_since IS NULL OR w.failing_since < now() - ${DISABLE_AFTER})
    RETURNING w.id, w.user_id, w.disabled_reason, ended.correlation_id
  ), disabled AS (
    SELECT * FROM endpoint WHERE disabled_reason IS NOT NULL
  ), told AS (
    INSERT INTO notifications (kind, endpoint_id, check_in_date, correlation_id)
    SELECT '${ENDPOINT_DISABLED}', id, now(), correlation_id FROM disabled WHERE user_id IS NOT NULL
  ), audited AS (
    ${auditBySystemSql(
      "webhook.disabled",
      "SELECT id, correlation_id, jsonb_build_object('reason', disabled_reason) FROM disabled",
    )}
  ), counted AS (${COUNTED})
  SELECT disabled_reason AS "disabledReason" FROM endpoint`;
