import { randomUUID } from "node:crypto";
import type { Services } from "../../server/access/context.js";
import { type Caller, createCaller, type Principal } from "../../server/caller.js";
import { enqueueInvitations } from "../../server/outbox/enqueue.js";

// The past of the demo data. The core creates everything now; the SQL in this file moves it to its time, and makes up what the
// worker would have done since. Nothing else in `gateway/` writes to the core's tables.

/** External ids of demo users and listings begin so. */
export const DEMO_PREFIX = "demo-";

interface UnsentEmail {
  formId: string;
  state: "waiting" | "retrying" | "failed";
  attempts: number;
  lastError: string | null;
}

interface AgedKey {
  id: string;
  lastUsedAt?: Date | undefined;
  expiresAt?: Date | undefined;
}

export interface Past {
  /** Calls the core. `write` moves what the call creates to the time `at`. */
  callAt(at: number, principal: Principal): Caller;
  /** Ends what the calls have begun: all invitations are sent, except `emails`. */
  write(rest: { emails: UnsentEmail[]; keys: AgedKey[]; failingEndpointId: string }): Promise<void>;
}

export function openPast(services: Services): Past {
  const calls: { id: string; at: Date }[] = [];
  return {
    callAt(at, principal) {
      const correlationId = randomUUID();
      calls.push({ id: correlationId, at: new Date(at) });
      return createCaller(services, principal, { correlationId });
    },
    write: ({ emails, keys, failingEndpointId }) =>
      services.db.longTransaction(async (tx) => {
        const run = (text: string, value: string) => tx.query("", text, [value]);
        const given = JSON.stringify(calls);
        await run(MOVE_ENTRIES, given);
        for (const [column, action, row] of MOVED) await run(moveRows(column, action, row), given);
        await run(AGE_KEYS, JSON.stringify(keys));
        await run(ADD_INVITATIONS, given);
        await run(SEND_INVITATIONS, given);
        await run(LEAVE_UNSENT, JSON.stringify(emails));
        await run(ADD_DELIVERIES, failingEndpointId);
        await run(FAIL_DELIVERIES, failingEndpointId);
        await run(FAIL_ENDPOINT, failingEndpointId);
      }),
  };
}

/** Adds the last events of the demo data to an endpoint, as sent. */
export const addSentDeliveries = ({ db }: Services, endpointId: string) => db.query("", ADD_DELIVERIES, [endpointId]);

/** Removes what an interrupted start has left. */
export const removeDemoData = ({ db }: Services) =>
  db.longTransaction(async (tx) => {
    for (const table of ["listings", "users"])
      await tx.query("", `DELETE FROM ${table} WHERE external_id LIKE $1`, [`${DEMO_PREFIX}%`]);
  });

const CALLS = "jsonb_to_recordset($1::jsonb) AS call (id uuid, at timestamptz)";

// Inserted again, because their ids are in the order of time.
const MOVE_ENTRIES = `
  WITH moved AS (
    DELETE FROM audit_entries e USING ${CALLS} WHERE e.correlation_id = call.id
    RETURNING e.id, call.at, e.actor, e.actor_id, e.actor_name, e.action, e.subject_id, e.correlation_id, e.details)
  INSERT INTO audit_entries (at, actor, actor_id, actor_name, action, subject_id, correlation_id, details)
  SELECT at, actor, actor_id, actor_name, action, subject_id, correlation_id, details FROM moved ORDER BY at, id`;

/** Columns with the time of an audit entry, and the row that it is about. */
const MOVED: [column: string, action: string, row?: string][] = [
  ["users.created_at", "user.created"],
  ["listings.created_at", "listing.created"],
  ["forms.created_at", "form.created"],
  ["api_keys.created_at", "key.issued"],
  ["api_keys.created_at", "key.rotated", "(e.details ->> 'replacedBy')::uuid"],
  ["api_keys.expires_at", "key.rotated"],
  ["api_keys.revoked_at", "key.revoked"],
  ["webhook_endpoints.created_at", "webhook.created"],
  ["webhook_endpoints.disabled_at", "webhook.disabled"],
];

function moveRows(name: string, action: string, row = "e.subject_id"): string {
  const [table, column] = name.split(".");
  return `UPDATE ${table} t SET ${column} = e.at FROM audit_entries e
    WHERE t.id = ${row} AND e.action = '${action}' AND e.correlation_id IN (SELECT call.id FROM ${CALLS})`;
}

const AGE_KEYS = `
  UPDATE api_keys k SET last_used_at = aged."lastUsedAt", expires_at = coalesce(aged."expiresAt", k.expires_at)
  FROM jsonb_to_recordset($1::jsonb) AS aged (id uuid, "lastUsedAt" timestamptz, "expiresAt" timestamptz)
  WHERE k.id = aged.id`;

const CREATED = `forms f JOIN audit_entries e ON e.subject_id = f.id AND e.action = 'form.created'
  JOIN ${CALLS} ON call.id = e.correlation_id`;

// The core has added none for stays that are over.
const ADD_INVITATIONS = enqueueInvitations(`
  SELECT f.id, f.listing_id, f.check_in_date, call.id FROM ${CREATED} WHERE f.guest_email IS NOT NULL AND f.check_out_date <= now()`);

const SEND_INVITATIONS = `
  UPDATE emails n
  SET state = 'sent', attempts = 1, next_attempt_at = NULL, created_at = f.created_at, heartbeat_at = f.created_at,
    ended_at = f.created_at + interval '2 seconds'
  FROM ${CREATED} WHERE n.form_id = f.id`;

// The next attempt is at check-out, when the worker expires the email: it is never sent.
const LEAVE_UNSENT = `
  UPDATE emails n
  SET state = email.state, attempts = email.attempts, last_error = email."lastError",
    next_attempt_at = CASE WHEN email.state <> 'failed' THEN f.check_out_date END,
    ended_at = CASE WHEN email.state = 'failed' THEN n.ended_at END
  FROM jsonb_to_recordset($1::jsonb)
    AS email ("formId" uuid, state "EmailState", attempts int, "lastError" text) JOIN forms f ON f.id = email."formId"
  WHERE n.form_id = f.id`;

const ADD_DELIVERIES = `
  INSERT INTO webhook_deliveries (form_id, endpoint_id, event_id, event_type, audit_entry_id, correlation_id, created_at,
    queued_at, state, attempts, next_attempt_at, heartbeat_at, ended_at, response_status, duration_ms)
  SELECT e.subject_id, w.id, gen_random_uuid(), e.type, e.id, e.correlation_id, e.at,
    e.at, 'sent', 1, NULL, e.at, e.at + interval '1 second', 204, 20 + e.id % 70
  FROM webhook_endpoints w CROSS JOIN LATERAL (
    SELECT e.*, CASE e.action WHEN 'form.status_set' THEN 'form.status_changed' WHEN 'form.party_set' THEN 'form.party_changed'
      WHEN 'form.updated' THEN 'form.moved' ELSE e.action END AS type
    FROM audit_entries e JOIN forms f ON f.id = e.subject_id JOIN listings l ON l.id = f.listing_id
    WHERE l.external_id LIKE '${DEMO_PREFIX}%' AND (w.user_id IS NULL
      OR EXISTS (SELECT FROM memberships m WHERE m.listing_id = l.id AND m.user_id = w.user_id))
    ORDER BY e.id DESC LIMIT 40
  ) e
  WHERE w.id = $1::uuid`;

// The last ones are retried, and wait for up to three days from now on. Those of an earlier outage were given up.
const FAIL_DELIVERIES = `
  UPDATE webhook_deliveries n
  SET response_status = 500, response_body = 'Internal Server Error', last_error = 'answered 500', queued_at = now(),
    (state, attempts, next_attempt_at, ended_at) = (SELECT d.state::"DeliveryState", d.attempts, d.next, d.ended FROM (VALUES
      (last.number <= 6, 'retrying', 2 + last.number, now() + interval '17 minutes' * last.number, NULL),
      (last.number > 6, 'failed', 21, NULL, least(now(), n.created_at + interval '3 days'))) AS d (fits, state, attempts, next, ended) WHERE d.fits)
  FROM (SELECT id, row_number() OVER (ORDER BY created_at DESC) AS number FROM webhook_deliveries WHERE endpoint_id = $1::uuid) last
  WHERE n.id = last.id AND (last.number <= 6 OR last.number BETWEEN 20 AND 23)`;

// Its pause ends only when somebody tests it or sends a delivery again.
const FAIL_ENDPOINT = `
  UPDATE webhook_endpoints w
  SET paused_until = now() + interval '10 years', failing_since = (
    SELECT min(n.created_at) FROM webhook_deliveries n WHERE n.endpoint_id = w.id AND n.state = 'retrying')
  WHERE w.id = $1::uuid`;
