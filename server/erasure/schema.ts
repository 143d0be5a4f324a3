import { z } from "zod";
import { expected } from "../errors.js";
import { formV1 } from "../forms/schema.js";
import { emailAddress, instant, instantOut, resourceId } from "../values.js";
import { isAddressHash } from "./address-hash.js";

/** A guest's address. */
export const addressInput = z.strictObject({ email: emailAddress });

/** `unreadable`: addresses that no secret can decrypt, so it is unknown whose they are. */
const counts = z.object({ forms: z.int(), emails: z.int(), unreadable: z.int() });

export type ErasureCounts = z.infer<typeof counts>;

/** An address and when it was last erased. It does not reveal the address. */
const erasure = z.object({ erasedAt: instantOut, addressHash: z.string() });

export type Erasure = z.infer<typeof erasure>;

export const erased = counts.extend(erasure.shape);

export const foundPerson = z.object({ forms: z.array(formV1), unreadable: z.int() });

/** `dryRun`: only says what it would do. */
export const eraseUserInput = z.strictObject({
  id: resourceId,
  dryRun: z.boolean({ error: expected("a boolean") }).default(false),
});

/** `listingsWithoutOwner`: ids of the user's listings that no other user owns. */
export const erasedUser = z.object({
  id: z.guid(),
  revokedKeys: z.int(),
  removedMemberships: z.int(),
  listingsWithoutOwner: z.array(z.guid()),
});

export const listErasuresInput = z.strictObject({ since: instant.optional() });

export const erasures = z.array(erasure);

/** Ignores other properties, so that the result of an erasure is a record too. */
export const erasureRecord = z.object({
  erasedAt: instant,
  addressHash: z
    .string({ error: expected("a string") })
    .refine(isAddressHash, "must be the `addressHash` of an erasure"),
});

export type ErasureRecord = z.input<typeof erasureRecord>;

export const reapplyInput = z.strictObject({
  records: z.array(erasureRecord, { error: expected("an array") }).max(100_000, "must have at most 100000 records"),
});

/** `unknownSecret`: records made with a secret that APP_SECRETS does not list, so it is unknown whose address they are. */
export const reapplied = counts.extend({ applied: z.int(), known: z.int(), unknownSecret: z.int() });

export type Reapplied = z.infer<typeof reapplied>;
