import type { Db } from "../../server/database/db.js";
import { ENDPOINT_PATH, HOSTS_DOMAIN } from "./demo-facts.js";

// The past of the demo data. The core creates everything now; the SQL in this file moves it to its time, and makes up what the
// worker would have done since. Nothing else in `gateway/` writes to the core's tables.

/** A call of the core by its correlation id, and the time to which what it creates is moved. */
export interface DatedCall {
  id: string;
  at: Date;
}

/** Moves everything to its time. All that workers would send is sent, except some of what was last. */
export const moveToPast = (db: Db, calls: DatedCall[], failingEndpointId: string) =>
  db.longTransaction(async (tx) => {
    const run = (text: string, value: string) => tx.query("", text, [value]);
    await run(MOVE_ENTRIES, JSON.stringify(calls));
    for (const table of ["users", "listings", "forms", "webhook_endpoints", "api_keys"])
      await tx.query("", moveRows(table), []);
    await tx.query("", SEND_INVITATIONS, []);
    await tx.query("", LEAVE_UNSENT, []);
    await tx.query("", SEND_DELIVERIES, []);
    await run(failDeliveries("failed", 21, "NULL", "4 days", "3 days"), failingEndpointId);
    await run(failDeliveries("retrying", 4, "now() + interval '2 hours'", "1 day", "0"), failingEndpointId);
    await run(FAIL_ENDPOINT, failingEndpointId);
  });

/** Removes what an interrupted start has left. */
export async function removeHosts(db: Db): Promise<void> {
  const hosts = `SELECT id FROM users WHERE email LIKE '%${HOSTS_DOMAIN}'`;
  for (const rows of [
    `listings WHERE id IN (SELECT listing_id FROM memberships WHERE user_id IN (${hosts}))`,
    `webhook_endpoints WHERE url LIKE '%${ENDPOINT_PATH}'`,
    `users WHERE id IN (${hosts})`,
  ])
    await db.query("", `DELETE FROM ${rows}`, []);
}

// Inserted again, because their ids are in the order of time.
const MOVE_ENTRIES = `
  WITH moved AS (
    DELETE FROM audit_entries e USING jsonb_to_recordset($1::jsonb) AS call (id uuid, at timestamptz)
    WHERE e.correlation_id = call.id
    RETURNING e.id, call.at, e.actor, e.actor_id, e.actor_name, e.action, e.subject_id, e.correlation_id, e.details)
  INSERT INTO audit_entries (at, actor, actor_id, actor_name, action, subject_id, correlation_id, details)
  SELECT at, actor, actor_id, actor_name, action, subject_id, correlation_id, details FROM moved ORDER BY at, id`;

const moveRows = (table: string) => `
  UPDATE ${table} t SET created_at = e.at FROM audit_entries e
  WHERE e.subject_id = t.id AND e.action ~ '\\.(created|issued)$'`;

const SEND_INVITATIONS = `
  UPDATE emails n
  SET state = 'sent', attempts = 1, next_attempt_at = NULL, created_at = f.created_at, heartbeat_at = f.created_at,
    ended_at = f.created_at + interval '2 seconds'
  FROM forms f WHERE n.form_id = f.id`;

// Of the last forms that wait for their guest. The next attempt is at check-out, when the worker expires the email: it is never sent.
const LEAVE_UNSENT = `
  UPDATE emails n
  SET state = unsent.state::"EmailState", attempts = unsent.attempts, last_error = unsent.error,
    next_attempt_at = CASE WHEN unsent.state <> 'failed' THEN last.check_out_date END,
    ended_at = CASE WHEN unsent.state = 'failed' THEN n.ended_at END
  FROM (VALUES (1, 'waiting', 0, NULL), (2, 'retrying', 8, '452 4.2.2 <g***@e***.com>: Mailbox full, try again later'),
      (3, 'failed', 1, 'Can''t send mail - all recipients were rejected: 550 5.1.1 <g***@e***.com>: mailbox unavailable')
    ) AS unsent (number, state, attempts, error)
    JOIN (
      SELECT f.id, f.check_out_date, row_number() OVER (ORDER BY f.created_at DESC) AS number
      FROM forms f JOIN emails ON emails.form_id = f.id WHERE f.status = 'SENT'
    ) AS last USING (number)
  WHERE n.form_id = last.id`;

// Those that are past their retention are gone.
const SEND_DELIVERIES = `
  WITH entry AS (
    SELECT * FROM audit_entries WHERE at > now() - interval '6 days'
  ), gone AS (
    DELETE FROM webhook_deliveries n WHERE NOT EXISTS (SELECT FROM entry e WHERE e.correlation_id = n.correlation_id))
  UPDATE webhook_deliveries n
  SET state = 'sent', attempts = 1, next_attempt_at = NULL, created_at = e.at, queued_at = e.at, heartbeat_at = e.at,
    ended_at = e.at + interval '1 second', response_status = 204, duration_ms = 20 + e.id % 70, audit_entry_id = e.id
  FROM entry e WHERE e.correlation_id = n.correlation_id`;

// They are retried for up to three days from now on.
const failDeliveries = (state: string, attempts: number, next: string, from: string, to: string) => `
  UPDATE webhook_deliveries n
  SET response_status = 500, response_body = 'Internal Server Error', last_error = 'answered 500', queued_at = now(),
    state = '${state}', attempts = ${attempts}, next_attempt_at = ${next}, ended_at = CASE WHEN ${next} IS NULL THEN now() END
  WHERE n.endpoint_id = $1::uuid AND n.created_at BETWEEN now() - interval '${from}' AND now() - interval '${to}'`;

// Its pause ends only when somebody tests it or sends a delivery again.
const FAIL_ENDPOINT = `
  UPDATE webhook_endpoints w
  SET paused_until = now() + interval '10 years', failing_since = (
    SELECT min(n.created_at) FROM webhook_deliveries n WHERE n.endpoint_id = w.id AND n.state = 'retrying')
  WHERE w.id = $1::uuid`;
