import type { Context } from "../access/context.js";
import { GRANTS_SCOPE } from "../access/scope.js";
import { audit, type Details, entryValues, INSERT_ENTRIES } from "../audit-trail/audit.js";
import type { EventType } from "../constants.js";
import type { Sql } from "../database/db.js";

/**
 * SQL: whether an endpoint may receive the events of listing `l`. Almost no listing has one, and without one a change only writes
 * its audit entry. It is read when the listing is locked, so anyone who adds an endpoint waits for the changes that have locked one but
 * may not have seen it (`database/in-flight-writes.ts`).
 */
export const HAS_ENDPOINTS = `(
  EXISTS (SELECT FROM webhook_endpoints w WHERE w.user_id IS NULL)
  OR EXISTS (SELECT FROM memberships o JOIN webhook_endpoints w ON w.user_id = o.user_id WHERE o.listing_id = l.id))`;

interface ChangedListing {
  id: string;
  /** See `HAS_ENDPOINTS`. */
  hasEndpoints: boolean;
}

/** A change of a form. */
interface FormEvent {
  type: EventType;
  /** Of the audit entry. */
  action: string;
  formId: string;
  /** The form's listing and, if it was moved, the one before: their members get the event. */
  listings: ChangedListing[];
  details?: Details;
}

// The endpoints of the users with one of the listings in scope, and the operator's. Every endpoint gets the same event id and time.
// The time is that of the statement, which holds the lock of the form: a later change of a form does not have an earlier one, even
// if its transaction began earlier.
const RECORD = `
  WITH entry AS (
    ${INSERT_ENTRIES}
    RETURNING id, subject_id, correlation_id, gen_random_uuid() AS event_id, clock_timestamp() AS changed_at
  ), owner AS (
    SELECT m.user_id, array_agg(m.listing_id) AS listing_ids
    FROM memberships m WHERE m.listing_id = ANY($8::uuid[]) AND ${GRANTS_SCOPE} GROUP BY 1
  ), endpoint AS (
    SELECT w.*, owner.listing_ids AS listings_in_scope FROM owner JOIN webhook_endpoints w ON w.user_id = owner.user_id
    UNION ALL
    SELECT w.*, $8::uuid[] FROM webhook_endpoints w WHERE w.user_id IS NULL
  )
  INSERT INTO webhook_deliveries
    (endpoint_id, event_id, event_type, form_id, audit_entry_id, correlation_id, created_at)
  SELECT endpoint.id, entry.event_id, $9::text, entry.subject_id, entry.id, entry.correlation_id, entry.changed_at
  FROM entry, endpoint
  WHERE endpoint.disabled_at IS NULL
    AND (endpoint.events = '{}' OR $9::text = ANY(endpoint.events))
    AND (endpoint.listing_ids = '{}' OR endpoint.listing_ids && endpoint.listings_in_scope)`;

/** Writes the audit entry of a change, and a delivery for each webhook endpoint that gets it. */
export async function recordEvent(
  tx: Sql,
  by: Pick<Context, "principal" | "correlationId">,
  { type, action, formId, listings, details = {} }: FormEvent,
): Promise<void> {
  if (!listings.some(({ hasEndpoints }) => hasEndpoints)) return audit(tx, by, action, formId, details);
  const ids = listings.map(({ id }) => id);
  await tx.query("record-event", RECORD, [...entryValues(by, action, formId, details), ids, type]);
}

// A row that is being sent has none: its claim has removed it, and what is answered to it is not kept.
const ERASE_ANSWERS = `
  UPDATE webhook_deliveries SET response_body = NULL WHERE form_id = ANY($1::uuid[]) AND response_body IS NOT NULL`;

/** Erases what webhooks have answered about these forms: it may quote an address. */
export async function eraseAnswers(tx: Sql, formIds: string[]): Promise<void> {
  await tx.query("erase-answers", ERASE_ANSWERS, [formIds]);
}
