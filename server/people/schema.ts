import { z } from "zod";
import { expected } from "../errors.js";
import { cursor, limit, nextCursor } from "../paging.js";
import { emailAddress, instantOut, resourceId, text, uuid } from "../values.js";

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
export const erased = z.object({ forms: z.int(), notifications: z.int(), unreadable: z.int() });

export type Erased = z.infer<typeof erased>;
