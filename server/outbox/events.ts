import type { Context } from "../access/context.js";
import { type Details, entryValues, INSERT_ENTRIES } from "../audit.js";
import type { EventType } from "../constants.js";
import type { Sql } from "../database/db.js";

/** The kind of webhook deliveries. */
export const DELIVERY = "webhook";

/** A change of a form. */
interface FormEvent {
  type: EventType;
  /** Of the audit entry. */
  action: string;
  formId: string;
  /** The listings whose members hear of it: the form's and, if it was moved, the one before. */
  listingIds: string[];
  details?: Details;
}

// The endpoints of the users with the form in scope, and the operator's: two index scans if there are none. Every endpoint
// gets the same event id. The time is that of the statement, which holds the lock of the form: a later change of a form has a
// later one, also if its transaction began earlier.
const RECORD = `
  WITH entry AS (
    ${INSERT_ENTRIES}
    RETURNING id, subject_id, correlation_id, gen_random_uuid() AS event_id
  ), owner AS (
    SELECT DISTINCT m.user_id FROM memberships m WHERE m.listing_id = ANY($7::uuid[]) AND grants_scope(m.role)
  ), endpoint AS (
    SELECT w.* FROM owner JOIN webhook_endpoints w ON w.user_id = owner.user_id
    UNION ALL
    SELECT w.* FROM webhook_endpoints w WHERE w.user_id IS NULL
  )
  INSERT INTO notifications
    (kind, form_id, endpoint_id, event_id, event_type, audit_entry_id, correlation_id, created_at)
  SELECT '${DELIVERY}', entry.subject_id, endpoint.id, entry.event_id, $8::text, entry.id, entry.correlation_id,
    clock_timestamp()
  FROM entry, endpoint
  WHERE endpoint.disabled_at IS NULL
    AND (endpoint.events = '{}' OR $8::text = ANY(endpoint.events))
    AND (endpoint.listing_ids = '{}' OR endpoint.listing_ids && $7::uuid[])`;

/** Writes the audit entry of a change, and a delivery for each webhook endpoint that hears of it. */
export async function recordEvent(
  tx: Sql,
  by: Pick<Context, "principal" | "correlationId">,
  { type, action, formId, listingIds, details = {} }: FormEvent,
): Promise<void> {
  await tx.query("record-event", RECORD, [...entryValues(by, action, formId, details), listingIds, type]);
}
