import { z } from "zod";
import { expected } from "../errors.js";
import { emailAddress, instantOut, resourceId, text } from "../values.js";

export const createUserInput = z.strictObject({ email: emailAddress, name: text(200).nullish() });

export const user = z.object({
  id: z.guid(),
  email: z.string(),
  name: z.string().nullable(),
  createdAt: instantOut,
});

export type User = z.infer<typeof user>;

export const getUserInput = z.strictObject({ id: resourceId });

export const findUserInput = z.strictObject({ email: emailAddress });

const membershipKey = { listingId: resourceId, userId: resourceId };

export const setMemberInput = z.strictObject({
  ...membershipKey,
  role: z.enum(["OWNER", "WRITER", "READER"], { error: expected("one of OWNER, WRITER and READER") }),
});

export const removeMemberInput = z.strictObject(membershipKey);

export const listMembersInput = z.strictObject({ listingId: resourceId });

export const membership = z.object({ listingId: z.guid(), userId: z.guid(), role: z.string() });

export type Membership = z.infer<typeof membership>;

export const eraseInput = z.strictObject({ email: emailAddress });

/** `unreadable` counts addresses that none of the secrets opens any more, so that nobody can tell whose they are. */
export const erased = z.object({ forms: z.int(), notifications: z.int(), unreadable: z.int() });

export type Erased = z.infer<typeof erased>;
