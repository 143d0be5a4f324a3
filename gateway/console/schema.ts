import { z } from "zod";
import { notificationCounts } from "../../server/notifications/schema.js";
import { instantOut } from "../../server/values.js";

/** Attempts that ended in one minute, by outcome. */
const outcomes = z.object({ sent: z.number(), failed: z.number(), retrying: z.number() });

export type Outcomes = z.infer<typeof outcomes>;

const minute = z.object({
  /** When it began. The last one is still in progress. */
  at: instantOut,
  /** Requests of the public operations that this process answered, without those of the console and its pages. */
  requests: z.number(),
  /** Those with status 500 or above. */
  errors: z.number(),
  /** Those with status 429, for a key or an unknown key. */
  refused: z.number(),
  /** Null without requests. */
  p50Ms: z.number().nullable(),
  p99Ms: z.number().nullable(),
  /** Of all workers; null if the database did not answer. */
  emails: outcomes.nullable(),
  deliveries: outcomes.nullable(),
});

export type Minute = z.infer<typeof minute>;

export const overview = z.object({
  version: z.string(),
  node: z.string(),
  startedAt: instantOut,
  /** The last hour at most, oldest first. */
  history: z.array(minute),
  /** Null if the database did not answer, as `deliveries`. */
  emails: z.object({ counts: notificationCounts, longestWaitSeconds: z.number() }).nullable(),
  deliveries: z
    .object({
      waiting: z.int(),
      running: z.int(),
      longestWaitSeconds: z.number(),
      /** Enabled ones. */
      endpoints: z.int(),
      /** Enabled ones whose last attempt failed. */
      failing: z.int(),
      /** Those that were disabled because they failed or were gone. */
      disabled: z.int(),
    })
    .nullable(),
});

export const health = z.object({
  checkedAt: instantOut,
  /** Whether no check failed. */
  ok: z.boolean(),
  checks: z.array(
    z.object({
      name: z.string(),
      status: z.enum(["ok", "warning", "failed", "skipped"]),
      /** What was found and, unless ok, what to do. */
      message: z.string(),
    }),
  ),
});
