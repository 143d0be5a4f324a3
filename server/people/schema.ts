import { z } from "zod";
import { expected } from "../errors.js";
import { cursor, limit, nextCursor } from "../paging.js";
import { emailAddress, instant, instantOut, resourceId, text, uuid } from "../values.js";
import { isAddressHash } from "./address-hash.js";

export const createUserInput = z.strictObject({ email: emailAddress, name: text(200).nullish() });

export const user = z.object({
  id: z.guid(),
  email: z.string(),
  name: z.string().nullable(),
  createdAt: instantOut,
});

export type User = z.infer<typeof user>;

export const listUsersInput = z.strictObject({ limit, cursor });

export const userPage = z.object({ items: z.array(user), nextCursor });

export const getUserInput = z.strictObject({ id: resourceId });

export const findUserInput = z.strictObject({ email: emailAddress });

const membershipKey = { listingId: resourceId, userId: resourceId };

export const setMemberInput = z.strictObject({
  ...membershipKey,
  role: z.enum(["OWNER", "WRITER", "READER"], { error: expected("one of OWNER, WRITER and READER") }),
});

export const removeMemberInput = z.strictObject(membershipKey);

/** Members of a listing, or memberships of a user. */
export const listMembersInput = z
  .strictObject({ limit, cursor, listingId: uuid.optional(), userId: uuid.optional() })
  .refine(({ listingId, userId }) => (listingId === undefined) !== (userId === undefined), {
    path: ["listingId"],
    error: "give either a listing or a user",
  });

export const membership = z.object({ listingId: z.guid(), userId: z.guid(), role: z.string() });

export type Membership = z.infer<typeof membership>;

/** A membership with display names of its user and listing. */
const member = membership.extend({ userEmail: z.string(), listingTitle: z.string() });

export type Member = z.infer<typeof member>;

export const memberPage = z.object({ items: z.array(member), nextCursor });

export const eraseInput = z.strictObject({ email: emailAddress });

/** `unreadable`: addresses that no secret can decrypt, so it is unknown whose they are. */
const counts = z.object({ forms: z.int(), notifications: z.int(), unreadable: z.int() });

export type ErasureCounts = z.infer<typeof counts>;

/** An address and when it was last erased. It does not reveal the address. */
const erasure = z.object({ erasedAt: instantOut, addressHash: z.string() });

export type Erasure = z.infer<typeof erasure>;

export const erased = counts.extend(erasure.shape);

export type Erased = z.infer<typeof erased>;

export const listErasuresInput = z.strictObject({ since: instant.optional() });

export const erasures = z.array(erasure);

/** Ignores other properties, so that the result of an erasure is a record too. */
export const erasureRecord = z.object({
  erasedAt: instant,
  addressHash: z
    .string({ error: expected("a string") })
    .refine(isAddressHash, "must be the `addressHash` of an erasure"),
});

export type ErasureRecord = z.infer<typeof erasureRecord>;

export const reapplyInput = z.strictObject({
  records: z
    .array(erasureRecord, { error: expected("an array") })
    .max(100_000, "must have at most 100000 records"),
});

/** `unknownSecret`: records made with a secret that APP_SECRETS does not list, so it is unknown whose address they are. */
export const reapplied = counts.extend({ applied: z.int(), known: z.int(), unknownSecret: z.int() });

export type Reapplied = z.infer<typeof reapplied>;
