import { z } from "zod";
import { instantOut, resourceId, uncoerced, uuid } from "../values.js";

/** One thing that happened. */
export const auditEntry = z.object({
  /** Its place in the order of all entries. */
  id: z.string(),
  at: instantOut,
  actor: z.enum(["key", "user", "operator", "system"]),
  /** The key's or the user's id. */
  actorId: z.guid().nullable(),
  /** The user who acted, or who holds the key that did. */
  userId: z.guid().nullable(),
  /** Such as `form.status_set`. */
  action: z.string(),
  /** What it happened to: a form, a listing, a key or a user. */
  subjectId: z.guid(),
  correlationId: z.guid(),
  /** Ids, names of fields, statuses and roles; never personal data. */
  details: z.record(z.string(), z.unknown()),
});

export type AuditEntry = z.infer<typeof auditEntry>;

const MAX_ENTRIES = 1000;

/** The entries of a subject, newest first; `before` is the id of the last entry of the page before. */
export const trailInput = z.strictObject({
  subjectId: resourceId,
  before: z
    .string()
    .regex(/^\d{1,18}$/, "must be the id of an entry")
    .optional(),
  limit: uncoerced(
    z
      .int("must be an integer")
      .min(1, "must be at least 1")
      .max(MAX_ENTRIES, `must be at most ${MAX_ENTRIES}`),
  ).default(100),
});

export const traceInput = z.strictObject({ correlationId: uuid });

/** `logField`: the field of the log lines that carries the id, on every line of that request or call. */
export const trace = z.object({
  correlationId: z.guid(),
  logField: z.literal("correlationId"),
  entries: z.array(auditEntry),
});

export type Trace = z.infer<typeof trace>;
