import type { OutboxTable } from "./states.js";

// SQL about a row `n` that both tables share.

const STATE_TYPES = { emails: '"EmailState"', webhook_deliveries: '"DeliveryState"' };

/** The type of the states of a table. */
export const stateType = (table: OutboxTable) => STATE_TYPES[table];

const IDS = { emails: "'emailId', n.id::text", webhook_deliveries: "'deliveryId', n.event_id" };

/** The fields of every log line about the row. Only these, because a row may hold a secret. */
export const factsSql = (table: OutboxTable) =>
  `jsonb_strip_nulls(jsonb_build_object(
    ${IDS[table]}, 'formId', n.form_id, 'endpointId', n.endpoint_id, 'correlationId', n.correlation_id))`;

/** The time of the next attempt: exponential backoff (factor e) up to six hours, with jitter of 20% either way. */
export const nextAttemptAfter = (failures: string) =>
  `now() + interval '1 second' * exp(least(10, ${failures})) * (0.8 + 0.4 * random())`;

/** The time after a pause that a receiver asked for: with jitter of 20%, but never earlier. */
export const pauseUntil = (seconds: string) => `now() + interval '1 second' * ${seconds} * (1 + 0.2 * random())`;
