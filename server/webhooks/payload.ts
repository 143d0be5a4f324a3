import { type EventType, TEST_EVENT } from "../constants.js";
import type { FormV1 } from "../forms/schema.js";
import { projectStatus } from "../forms/schema.js";
import { SendingFailed } from "../outbox/attempt.js";
import type { WebhookEvent } from "./event-schema.js";

/** What a delivery reads besides the form. */
export interface EventRow {
  eventType: EventType | typeof TEST_EVENT;
  /** When the change was made. */
  timestamp: string;
  /** When the form was read. */
  sentAt: string;
  /** Of the audit entry; null if that is past its retention. */
  details: { from?: string; to?: string; fields?: string[] } | null;
  /** Null if the owner of the endpoint may not see it. */
  previousListingId: string | null;
}

/** The body of a delivery; undefined if it is about a form that is not in scope. Throws if what has changed is no longer known. */
export function eventOf(
  { eventType: type, timestamp, sentAt, details, previousListingId }: EventRow,
  form: FormV1 | null,
): WebhookEvent | undefined {
  if (type === TEST_EVENT) return { type, timestamp, sentAt, data: {} };
  if (!form) return undefined;
  if (type === "form.created") return { type, timestamp, sentAt, data: { form } };
  if (!details) throw new SendingFailed("what has changed is past its retention", true);
  const { fields = [], from = "", to = "" } = details;
  switch (type) {
    case "form.updated":
    case "form.party_changed":
      return { type, timestamp, sentAt, data: { form, fields } };
    case "form.moved":
      return { type, timestamp, sentAt, data: { form, previousListingId, fields } };
    case "form.cancelled":
      return { type, timestamp, sentAt, data: { form, from: projectStatus(from) } };
    case "form.status_changed":
      return { type, timestamp, sentAt, data: { form, from: projectStatus(from), to: projectStatus(to) } };
  }
}
