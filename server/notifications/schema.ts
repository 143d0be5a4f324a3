import { z } from "zod";
import { ALL_STATES, STATES } from "../constants.js";
import { expected } from "../errors.js";
import { cursor, limit, nextCursor } from "../resources/paging.js";
import { instantOut, languageTag, resourceId } from "../values.js";

export const notification = z.object({
  id: z.string(),
  /** Null: it is about `endpointId`, a webhook endpoint that was disabled. */
  formId: z.string().nullable(),
  endpointId: z.string().nullable(),
  state: z.enum(ALL_STATES),
  attempts: z.int(),
  lastError: z.string().nullable(),
  /** When the next or current attempt is or was due; null once sent, given up or expired. */
  runAt: instantOut.nullable(),
  sentAt: instantOut.nullable(),
});

export type Notification = z.infer<typeof notification>;

export const listInput = z.strictObject({
  limit,
  cursor,
  state: z.enum(ALL_STATES, { error: expected(`one of ${ALL_STATES.join(", ")}`) }).optional(),
  formId: resourceId.optional(),
});

export const notificationPage = z.object({ items: z.array(notification), nextCursor });

/** A malformed id is RESOURCE_NOT_FOUND. */
export const retryInput = z.strictObject({ id: z.string({ error: expected("a string") }) });

export const retriedNotifications = z.object({ retried: z.int() });

export const sendInput = z.strictObject({ formId: resourceId });

export const previewInput = z.strictObject({ formId: resourceId, language: languageTag.optional() });

/** The invitation as a mail client gets it, in the language of its templates. */
export const invitation = z.object({ language: z.string(), subject: z.string(), text: z.string(), html: z.string() });

export const notificationCounts = z.record(z.enum(STATES), z.int());
