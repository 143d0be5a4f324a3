import { z } from "zod";
import { expected } from "../errors.js";
import { instantOut } from "../values.js";

/**
 * `waiting`: no attempt yet; `running`: being sent; `retrying`: failed, next attempt at `runAt`; `failed`: given up;
 * `expired`: not sent in time (see `expiry.ts`).
 */
export const STATES = ["waiting", "running", "retrying", "failed", "expired"] as const;

export type State = (typeof STATES)[number];

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

/** A malformed id is RESOURCE_NOT_FOUND. */
export const retryInput = z.strictObject({ id: z.string({ error: expected("a string") }) });

export const notificationCounts = z.record(z.enum(STATES), z.int());
