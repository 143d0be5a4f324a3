import { z } from "zod";
import { KEY_MODES } from "../constants.js";
import { expected } from "../errors.js";
import { cursor, limit, nextCursor } from "../resources/paging.js";
import { reference, text } from "../texts.js";
import { instant, instantOut, resourceId, uncoerced } from "../values.js";

export const issueInput = z.strictObject({
  userId: resourceId,
  mode: z.enum(KEY_MODES, { error: expected("READ_WRITE or READ_ONLY") }),
  label: text(100).nullish(),
  expiresAt: instant.nullish(),
});

/** A new key: the only response with `key`. */
export const issuedKey = z.object({
  id: z.guid(),
  key: z.string(),
  prefix: z.string(),
  mode: z.enum(KEY_MODES),
  expiresAt: instantOut.nullable(),
});

export type IssuedKey = z.infer<typeof issuedKey>;

export const listInput = z.strictObject({ limit, cursor, userId: resourceId.optional() });

export const keySummary = issuedKey.omit({ key: true }).extend({
  userId: z.guid(),
  label: z.string().nullable(),
  createdAt: instantOut,
  revokedAt: instantOut.nullable(),
  lastUsedAt: instantOut.nullable(),
  /** Id of the key that a rotation has issued instead. */
  replacedBy: z.guid().nullable(),
});

export const keyPage = z.object({ items: z.array(keySummary), nextCursor });

export type KeySummary = z.infer<typeof keySummary>;

export const findInput = z.strictObject({ key: reference });

export const revokeInput = z.strictObject({ id: resourceId });

/** The old key keeps working for `graceSeconds`: 24 hours by default, at most a year. */
export const rotateInput = z.strictObject({
  id: resourceId,
  graceSeconds: uncoerced(
    z
      .int({ error: expected("an integer") })
      .min(0, "must be at least 0")
      .max(31_536_000, "must be at most a year"),
  ).default(86_400),
});

/** The new key, and the id and new expiry of the one it replaces. */
export const rotatedKey = issuedKey.extend({
  replaces: z.object({ id: z.guid(), expiresAt: instantOut }),
});
