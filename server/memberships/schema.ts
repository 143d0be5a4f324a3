import { z } from "zod";
import { ROLES } from "../constants.js";
import { expected } from "../errors.js";
import { cursor, limit, nextCursor } from "../resources/paging.js";
import { resourceId, uuid } from "../values.js";

const membershipKey = { listingId: resourceId, userId: resourceId };

export const setMemberInput = z.strictObject({
  ...membershipKey,
  role: z.enum(ROLES, { error: expected("one of OWNER, WRITER and READER") }),
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
