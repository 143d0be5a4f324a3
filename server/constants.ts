// Imports nothing, so that the commands' help can use it without loading the core.

/** Items per page. */
export const DEFAULT_LIMIT = 50;
export const MAX_LIMIT = 100;

export const KEY_MODES = ["READ_WRITE", "READ_ONLY"] as const;
export type KeyMode = (typeof KEY_MODES)[number];

export const ROLES = ["OWNER", "WRITER", "READER"] as const;

/**
 * States of an email that has not reached its recipient, as far as is known. `waiting`: no attempt yet; `running`: being sent;
 * `retrying`: failed, next attempt at `runAt`; `failed`: given up; `bounced`: accepted by the mail server, and came back;
 * `expired`: not sent in time (see `emails/expiry.ts`); `dismissed`: it failed or bounced, and was dealt with.
 */
export const UNDELIVERED_EMAIL_STATES = [
  "waiting",
  "running",
  "retrying",
  "failed",
  "bounced",
  "expired",
  "dismissed",
] as const;
export type UndeliveredEmailState = (typeof UNDELIVERED_EMAIL_STATES)[number];
export const EMAIL_STATES = [...UNDELIVERED_EMAIL_STATES, "sent"] as const;

/**
 * States of a webhook delivery, the first three as above. `failed`: given up; `expired`: it waited too long, or too many newer ones
 * waited; `out_of_scope`: not sent, because the owner of the endpoint may no longer see the form.
 */
export const DELIVERY_STATES = ["waiting", "running", "retrying", "failed", "sent", "expired", "out_of_scope"] as const;
export type UnsentDeliveryState = Exclude<(typeof DELIVERY_STATES)[number], "sent">;
export const UNSENT_DELIVERY_STATES = DELIVERY_STATES.filter((state) => state !== "sent") as UnsentDeliveryState[];

/** Not more are counted, per state. */
export const MAX_COUNTED_DELIVERIES = 10_000;

/** Types of the events that webhooks deliver. */
export const EVENT_TYPES = [
  "form.created",
  "form.updated",
  "form.moved",
  "form.status_changed",
  "form.cancelled",
  "form.party_changed",
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** Type of the event that `webhooks.test` sends. */
export const TEST_EVENT = "webhook.test";

/** Ids in the examples of the documents. */
export const EXAMPLE_FORM_ID = "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11";
export const EXAMPLE_LISTING_ID = "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa";
