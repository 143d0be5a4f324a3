import { z } from "zod";
import { DELIVERY_STATES } from "../constants.js";
import { instantOut, resourceId, uncoerced, uuid } from "../values.js";

export const auditEntry = z.object({
  /** Increases with each entry. */
  id: z.string(),
  at: instantOut,
  actor: z.enum(["key", "user", "operator", "guest", "system"]),
  /** Id of the key or user. */
  actorId: z.guid().nullable(),
  /** Of the operator, if known. */
  actorName: z.string().nullable(),
  /** The user who acted, or the holder of the key. */
  userId: z.guid().nullable(),
  /** Such as `form.status_set`. */
  action: z.string(),
  /** Id of the changed form, listing, key or user. */
  subjectId: z.guid(),
  correlationId: z.guid(),
  /** First characters of the key that it is about. */
  keyPrefix: z.string().nullable(),
  /** Ids, names of fields, statuses and roles; never personal data. */
  details: z.record(z.string(), z.unknown()),
});

export type AuditEntry = z.infer<typeof auditEntry>;

const MAX_ENTRIES = 1000;

/** `before`: id of the last entry of the previous page. */
export const trailInput = z.strictObject({
  subjectId: resourceId,
  before: z
    .string()
    .regex(/^\d{1,18}$/, "must be the id of an entry")
    .optional(),
  limit: uncoerced(
    z.int("must be an integer").min(1, "must be at least 1").max(MAX_ENTRIES, `must be at most ${MAX_ENTRIES}`),
  ).default(100),
});

export const traceInput = z.strictObject({ correlationId: uuid });

/** A webhook delivery that a request has caused. */
const tracedDelivery = z.object({
  id: z.guid(),
  endpointId: z.guid(),
  event: z.string(),
  formId: z.guid().nullable(),
  state: z.enum(DELIVERY_STATES),
  attempts: z.int(),
  responseStatus: z.int().nullable(),
  nextAttemptAt: instantOut.nullable(),
});

export type TracedDelivery = z.infer<typeof tracedDelivery>;

/** `logField`: name of the log field that contains the id. */
export const trace = z.object({
  correlationId: z.guid(),
  logField: z.literal("correlationId"),
  entries: z.array(auditEntry),
  deliveries: z.array(tracedDelivery),
});
