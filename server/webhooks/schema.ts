import { z } from "zod";
import { DELIVERY_STATES, EVENT_TYPES, UNSENT_DELIVERY_STATES } from "../constants.js";
import { expected } from "../errors.js";
import { cursor, limit, nextCursor } from "../resources/paging.js";
import { url } from "../texts.js";
import { instant, instantOut, resourceId, uuid } from "../values.js";

const MAX_URL_LENGTH = 2000;
const MAX_LISTINGS = 100;

const endpointUrl = url(MAX_URL_LENGTH);

const event = z.enum(EVENT_TYPES, { error: expected(`one of ${EVENT_TYPES.join(", ")}`) });

/** Types of events; empty for all. */
const events = z.array(event, { error: expected("an array") }).transform((types) => [...new Set(types)]);

/** Only events of forms on these listings; empty for all. */
const listingIds = z
  .array(uuid, { error: expected("an array") })
  .max(MAX_LISTINGS, `must be at most ${MAX_LISTINGS} listings`)
  .transform((ids) => [...new Set(ids)]);

/** `userId`: the owner; the operator may leave it out for an endpoint of its own. A user may only name itself. */
export const createInput = z.strictObject({
  userId: resourceId.nullish(),
  url: endpointUrl,
  events: events.default([]),
  listingIds: listingIds.default([]),
});

/** Absent fields are unchanged. */
export const updateInput = z.strictObject({
  id: resourceId,
  url: endpointUrl.optional(),
  events: events.optional(),
  listingIds: listingIds.optional(),
});

export const getInput = z.strictObject({ id: resourceId });

/** `userId`: only this user's. */
export const listInput = z.strictObject({ limit, cursor, userId: uuid.optional() });

export const endpoint = z.object({
  id: z.guid(),
  /** Null: the operator's. */
  userId: z.guid().nullable(),
  url: z.string(),
  /** Empty: all. */
  events: z.array(z.string()),
  /** Empty: all in the owner's scope. */
  listingIds: z.array(z.string()),
  disabledAt: instantOut.nullable(),
  /** `manual`; `gone`: it answered 410; `failing`: all attempts of three days have failed. */
  disabledReason: z.enum(["manual", "gone", "failing"]).nullable(),
  /** First failure since the last success. */
  failingSince: instantOut.nullable(),
  createdAt: instantOut,
});

/** An endpoint as it is returned. */
export const endpointOut = endpoint.extend({ enabled: z.boolean() });

export type Endpoint = z.infer<typeof endpointOut>;

export const endpointPage = z.object({ items: z.array(endpointOut), nextCursor });

/** The only response with the secret. */
export const createdEndpoint = endpointOut.extend({ secret: z.string() });

/** Both secrets sign until `previousSecretUntil`. */
export const rotatedSecret = z.object({ id: z.guid(), secret: z.string(), previousSecretUntil: instantOut });

export const delivery = z.object({
  /** The `webhook-id`: unique per endpoint. */
  id: z.guid(),
  endpointId: z.guid(),
  event: z.string(),
  /** Null for a test. */
  formId: z.guid().nullable(),
  state: z.enum(DELIVERY_STATES),
  attempts: z.int(),
  /** Of the last attempt, like the next three. Null if there was no answer. */
  responseStatus: z.int().nullable(),
  /** The beginning of the answer, at most 256 bytes; null if the answer was a success. */
  responseBody: z.string().nullable(),
  /** Until the answer, in milliseconds. */
  durationMs: z.int().nullable(),
  lastError: z.string().nullable(),
  /** Null once it has ended. */
  nextAttemptAt: instantOut.nullable(),
  /** The event's timestamp. */
  createdAt: instantOut,
  deliveredAt: instantOut.nullable(),
});

export type Delivery = z.infer<typeof delivery>;

/** Without `endpointId`, of all endpoints: only for the operator, and those of a form or in one state other than `sent`. */
export const deliveriesInput = z
  .strictObject({
    endpointId: resourceId.optional(),
    formId: resourceId.optional(),
    limit,
    cursor,
    state: z.enum(DELIVERY_STATES, { error: expected(`one of ${DELIVERY_STATES.join(", ")}`) }).optional(),
  })
  .refine(({ endpointId, formId, state }) => (endpointId ?? formId ?? state ?? "sent") !== "sent", {
    path: ["state"],
    error: "is required, and not sent, unless endpointId or formId is sent",
  })
  .refine(({ endpointId, formId }) => endpointId === undefined || formId === undefined, {
    path: ["formId"],
    error: "must not be sent with endpointId",
  });

export const countInput = z.strictObject({ endpointId: resourceId.optional() });

export const deliveryCounts = z.record(z.enum(UNSENT_DELIVERY_STATES), z.int());

export const deliveryPage = z.object({ items: z.array(delivery), nextCursor });

/** One delivery, or all failed and expired ones, or all that have ended, of events in a time range. */
export const redeliverInput = z
  .strictObject({
    endpointId: resourceId,
    id: uuid.optional(),
    failed: z.literal(true, { error: expected("true") }).optional(),
    since: instant.optional(),
    until: instant.optional(),
  })
  .refine(({ id, failed, since }) => id !== undefined || failed !== undefined || since !== undefined, {
    path: ["id"],
    error: "is required unless failed or since is sent",
  });

export const redelivered = z.object({ redelivered: z.int() });
