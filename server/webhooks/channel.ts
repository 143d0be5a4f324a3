import type { Log, Services } from "../access/context.js";
import { membershipInScope } from "../access/scope.js";
import { EVENT_TYPES, TEST_EVENT } from "../constants.js";
import { maskEmails } from "../emails/masking.js";
import { type Keys, open } from "../encryption.js";
import { FORM_COLUMNS, type FormRow, projectForm } from "../forms/queries.js";
import type { ActivityCounts } from "../outbox/activity.js";
import type { Channel } from "../outbox/attempt.js";
import { type Claimed, claimSql, JOIN_BUSY_QUEUES } from "../outbox/claim.js";
import { factsSql } from "../outbox/rows.js";
import { storable } from "../texts.js";
import { NIL_UUID } from "../values.js";
import { type EventRow, eventOf } from "./payload.js";
import { type DeliveryOutcome, recordDeliveries } from "./record.js";
import { type Answer, DeliveryFailed, type Post } from "./request.js";
import { sign } from "./sign.js";

/** Deliveries that a process sends at the same time. They hold a socket each, but no database connection. */
const CONCURRENCY = 512;
/** Of these per endpoint, so that a slow receiver delays only its own. */
const MAX_PER_ENDPOINT = 4;
/** And per owner, so that many slow endpoints of one owner leave room for others. */
const MAX_PER_OWNER = 32;
/** Of a failing answer. */
const MAX_KEPT_BYTES = 256;

type ClaimedDelivery = Claimed &
  EventRow & {
    /** The `webhook-id`. */
    eventId: string;
    correlationId: string;
    url: string;
    /** Of the endpoint, when the delivery was claimed. */
    revision: number;
    /** Sealed. The newest first; the others also sign. */
    secrets: Uint8Array[];
    /** As it is now; null if it is not in the scope of the endpoint's owner. */
    form: FormRow | null;
    /** Whether the form has the guest's address. */
    hasAddress: boolean;
  };

interface DeliveryDeps {
  services: Pick<Services, "db" | "keyring" | "settings">;
  post: Post;
  workerId: string;
  counts: ActivityCounts;
  log: Log;
}

/** The webhook deliveries in the outbox. */
export function deliveryChannel({
  services: { db, keyring, settings },
  post,
  workerId,
  counts,
  log,
}: DeliveryDeps): Channel<ClaimedDelivery, DeliveryOutcome> {
  return {
    table: "webhook_deliveries",
    concurrency: CONCURRENCY,
    // A delivery is retried as long as it may wait: see `record.ts`.
    maxAttempts: Number.POSITIVE_INFINITY,
    isQuiet: true,

    async claim(values) {
      const rows = await db.query<Row>("claim-deliveries", CLAIM, [workerId, ...values]);
      return rows.map(toClaimed);
    },

    async send(row) {
      const event = eventOf(row, row.form && projectForm(row.form, settings));
      if (!event) return { id: row.id, state: "out_of_scope", reason: null };
      const body = JSON.stringify(event);
      const { status, durationMs } = await post(row.url, headersOf(keyring.webhook, row, body), body);
      return { id: row.id, state: "sent", reason: null, status, durationMs, ...verdictOf(row, "accepts") };
    },

    toFailure(row, failure, error) {
      // Our own faults say nothing about the endpoint.
      if (!(error instanceof DeliveryFailed)) return failure;
      const { answer, durationMs } = error;
      return {
        ...failure,
        hadAddress: row.hasAddress,
        ...verdictOf(row, error.isFinal ? "gone" : "fails"),
        durationMs,
        ...(answer && { status: answer.status, body: keptBody(answer), pauseSeconds: answer.retryAfterSeconds ?? 0 }),
      };
    },

    record: (outcomes) => recordDeliveries(db, workerId, outcomes, { counts, log }),
  };
}

const verdictOf = (
  { queueId, revision, attempts, correlationId }: ClaimedDelivery,
  verdict: "accepts" | "fails" | "gone",
) => ({ endpoint: { id: queueId, revision, attempts, correlationId, verdict } });

function headersOf(keys: Keys, { queueId: endpointId, eventId, secrets: sealed }: ClaimedDelivery, body: string) {
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

/** The beginning of an answer, without addresses and hidden characters. */
function keptBody({ body }: Pick<Answer, "body">): string {
  const text = maskEmails(storable(body.slice(0, 4 * MAX_KEPT_BYTES)));
  // `stream` drops a character that is cut in the middle.
  return new TextDecoder().decode(Buffer.from(text).subarray(0, MAX_KEPT_BYTES), { stream: true });
}

type Row = Omit<ClaimedDelivery, "id" | "form"> & { deliveryId: string } & (
    | ({ isInScope: true } & FormRow)
    | { isInScope: false }
  );

/** The form's `id` hides that of the delivery. */
const toClaimed = (row: Row): ClaimedDelivery => ({ ...row, id: row.deliveryId, form: row.isInScope ? row : null });

const KNOWN_EVENTS = [...EVENT_TYPES, TEST_EVENT].map((type) => `'${type}'`).join(", ");

const IS_IN_SCOPE = (listingId: string) => `(w.user_id IS NULL OR EXISTS (
  SELECT FROM memberships m WHERE ${membershipInScope("w.user_id")} AND m.listing_id = ${listingId}))`;

const OWNER = `coalesce(w.user_id, '${NIL_UUID}')`;

const IS_KNOWN = `n.event_type IN (${KNOWN_EVENTS})`;

// An endpoint that fails gets one delivery at a time, after a pause. What waits for one that is disabled or deleted is ended by
// `expiry.ts`. The form is read by the statement that starts the attempt: never older than the event, and never out of scope.
const CLAIM = claimSql({
  table: "webhook_deliveries",
  queue: "endpoint_id",
  queues: `
    SELECT p.queue_id, ${OWNER} AS tenant_id, coalesce(busy.running, 0) AS running,
      CASE WHEN w.paused_until > now() THEN 0 WHEN w.failing_since IS NOT NULL THEN 1 ELSE ${MAX_PER_ENDPOINT} END
        - coalesce(busy.running, 0) AS slots
    FROM pending p CROSS JOIN LATERAL (
      SELECT * FROM webhook_endpoints WHERE id = p.queue_id AND disabled_at IS NULL LIMIT 1) w ${JOIN_BUSY_QUEUES}`,
  ranges: [
    [`n.is_urgent AND ${IS_KNOWN}`, "n.next_attempt_at"],
    [`NOT n.is_urgent AND ${IS_KNOWN}`, "n.next_attempt_at"],
  ],
  maxPerTenant: MAX_PER_OWNER,
  set: ", response_body = NULL",
  read: `
  SELECT n.id::text AS "deliveryId", n.attempts, n.endpoint_id::text AS "queueId", ${OWNER}::text AS "tenantId",
    ${factsSql("webhook_deliveries")} AS facts, n.event_id::text AS "eventId", n.correlation_id::text AS "correlationId", n.event_type AS "eventType",
    n.created_at AS timestamp, now()::timestamptz(3) AS "sentAt", w.url, w.revision, array_prepend(w.secret, ARRAY(
      SELECT p.secret FROM unnest(w.previous_secrets, w.previous_secrets_until) AS p (secret, until)
      WHERE p.until > now())) AS secrets, e.details,
    CASE WHEN ${IS_IN_SCOPE("(e.details ->> 'movedFrom')::uuid")} THEN e.details ->> 'movedFrom' END AS "previousListingId",
    f.id IS NOT NULL AS "isInScope", f.guest_email IS NOT NULL AS "hasAddress", ${FORM_COLUMNS}
  FROM claimed n CROSS JOIN LATERAL (SELECT * FROM webhook_endpoints WHERE id = n.endpoint_id LIMIT 1) w
    LEFT JOIN audit_entries e ON e.id = n.audit_entry_id
    LEFT JOIN forms f ON f.id = n.form_id AND ${IS_IN_SCOPE("f.listing_id")}`,
});
