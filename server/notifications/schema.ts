import { z } from "zod";
import { expected } from "../errors.js";
import { cursor, limit, nextCursor } from "../paging.js";
import { instantOut } from "../values.js";
import { STATES } from "./states.js";

export const notification = z.object({
  id: z.string(),
  formId: z.string(),
  state: z.enum(STATES),
  attempts: z.int(),
  lastError: z.string().nullable(),
  /** When the next or current attempt is or was due; null once given up or expired. */
  runAt: instantOut.nullable(),
});

export type Notification = z.infer<typeof notification>;

export const listInput = z.strictObject({
  limit,
  cursor,
  state: z.enum(STATES, { error: expected(`one of ${STATES.join(", ")}`) }).optional(),
});

export const notificationPage = z.object({ items: z.array(notification), nextCursor });

/** A malformed id is RESOURCE_NOT_FOUND. */
export const retryInput = z.strictObject({ id: z.string({ error: expected("a string") }) });

export const notificationCounts = z.record(z.enum(STATES), z.int());
