import type { Context } from "../access/context.js";
import { GRANTS_SCOPE } from "../access/scope.js";
import { type Details, entryValues, INSERT_ENTRIES } from "../audit.js";
import type { EventType } from "../constants.js";
import type { Sql } from "../database/db.js";

/** A change of a form. */
interface FormEvent {
  type: EventType;
  /** Of the audit entry. */
  action: string;
  formId: string;
  /** The form's listing and, if it was moved, the one before: their members get the event. */
  listingIds: string[];
  details?: Details;
}

// The endpoints are those of the users with one of the listings in scope, and the operator's. Every endpoint gets the same event id
// and time. The time is that of the statement, which holds the lock of the form: a later change of a form does not have an earlier
// one, even if its transaction began earlier. The endpoints are read here, after the transaction has locked the table of forms, so
// that whoever creates an endpoint can wait for the changes that do not see it (`database/in-flight-writes.ts`).
const RECORD = `
  WITH entry AS (
    ${INSERT_ENTRIES}
    RETURNING id, subject_id, correlation_id
  )
  INSERT INTO webhook_deliveries
    (endpoint_id, event_id, event_type, form_id, audit_entry_id, correlation_id, created_at)
  SELECT w.id, event.id, $9::text, entry.subject_id, entry.id, entry.correlation_id, event.at
  FROM webhook_endpoints w, entry, (SELECT gen_random_uuid() AS id, clock_timestamp() AS at) AS event
  WHERE w.id = ANY(ARRAY(
      SELECT e.id FROM memberships m JOIN webhook_endpoints e ON e.user_id = m.user_id
      WHERE m.listing_id = ANY($8::uuid[]) AND ${GRANTS_SCOPE} AND (e.listing_ids = '{}' OR m.listing_id = ANY(e.listing_ids))
      UNION ALL
      SELECT e.id FROM webhook_endpoints e WHERE e.user_id IS NULL AND (e.listing_ids = '{}' OR e.listing_ids && $8::uuid[])))
    AND w.disabled_at IS NULL AND (w.events = '{}' OR $9::text = ANY(w.events))`;

/** Writes the audit entry of a change, and a delivery for each webhook endpoint that gets it. */
export async function recordEvent(
  tx: Sql,
  by: Pick<Context, "principal" | "correlationId">,
  { type, action, formId, listingIds, details = {} }: FormEvent,
): Promise<void> {
  await tx.query("record-event", RECORD, [...entryValues(by, action, formId, details), listingIds, type]);
}
