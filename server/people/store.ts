import type { z } from "zod";
import type { User as UserRow } from "../../prisma/client/client.js";
import { audit } from "../audit.js";
import type { Context, Services, UserPrincipal } from "../context.js";
import { queryIn, type Sql, type Transaction } from "../db.js";
import { invalid, notFound, ServiceError } from "../errors.js";
import { canonicalEmail, resourceId } from "../values.js";
import type { createUserInput, Membership, removeMemberInput, setMemberInput, User } from "./schema.js";

/** A new user; VALIDATION_ERROR, with the id of the user who has it, if the address is taken in whatever case. */
export function createUser(context: Context, input: z.output<typeof createUserInput>): Promise<User> {
  return context.services.db.transaction(async (tx) => {
    const [row] = await tx.user.createManyAndReturn({
      data: [{ email: canonicalEmail(input.email), name: input.name ?? null }],
      skipDuplicates: true,
    });
    if (!row) {
      const [taken] = await findByEmail(tx, input.email);
      throw invalid([{ field: "email", issue: `a user with this address exists already: ${taken?.id}` }]);
    }
    await audit(tx, context, "user.created", row.id);
    return projectUser(row);
  });
}

const projectUser = ({ id, email, name, createdAt }: UserRow): User => ({
  id,
  email,
  name,
  createdAt: createdAt.toISOString(),
});

/** The user with this id; RESOURCE_NOT_FOUND if there is none. */
export async function getUser({ services }: Context, id: string): Promise<User> {
  const row = await services.db.prisma.user.findUnique({ where: { id } });
  if (!row) throw notFound();
  return projectUser(row);
}

/** The user with this address, in whatever case; RESOURCE_NOT_FOUND if there is none. */
export async function findUserByEmail(context: Context, email: string): Promise<User> {
  const [found] = await findByEmail(context.services.db, email);
  if (!found) throw notFound();
  return getUser(context, found.id);
}

const BY_EMAIL = `SELECT id FROM users WHERE lower(email COLLATE "C") = $1`;

const findByEmail = (tx: Sql | Transaction, email: string) =>
  queryIn<{ id: string }>(tx, "user-by-email", BY_EMAIL, [email.toLowerCase()]);

/** The user an internal tool acts for; UNAUTHENTICATED if there is none with this id. */
export async function actAs({ db }: Services, userId: string): Promise<UserPrincipal> {
  const [found] = await findUser(db, resourceId.parse(userId));
  if (!found) throw new ServiceError("UNAUTHENTICATED", { message: "There is no user with this id." });
  return { kind: "user", userId: found.id };
}

const findUser = (tx: Sql | Transaction, id: string) =>
  queryIn<{ id: string }>(tx, "user", "SELECT id FROM users WHERE id = $1::uuid", [id]);

/** Throws VALIDATION_ERROR about `field` unless the user exists. */
export async function assertUserExists(tx: Sql | Transaction, id: string, field: string): Promise<void> {
  const [found] = await findUser(tx, id);
  if (!found) throw invalid([{ field, issue: "no user has this id" }]);
}

const LOCK_LISTING = "SELECT id FROM listings WHERE id = $1::uuid FOR UPDATE";

const SET = `
  INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
  SELECT $1::uuid, id, created_at, $3::"MembershipRole" FROM listings WHERE id = $2::uuid
  ON CONFLICT (user_id, listing_id) DO UPDATE SET role = excluded.role`;

const REMOVE = `
  DELETE FROM memberships WHERE user_id = $1::uuid AND listing_id = $2::uuid RETURNING role::text`;

/** Gives a user a role on a listing, in place of any they have. Takes seconds on a listing of many forms. */
export function setMember(context: Context, input: z.output<typeof setMemberInput>): Promise<Membership> {
  const { userId, listingId, role } = input;
  return context.services.db.longTransaction(async (tx) => {
    await assertUserExists(tx, userId, "userId");
    // Before the insert's foreign key shares it: the trigger then takes it for update, and upgrading a lock deadlocks.
    const [listing] = await tx.query("lock-listing-for-members", LOCK_LISTING, [listingId]);
    if (!listing) throw invalid([{ field: "listingId", issue: "no listing has this id" }]);
    await tx.query("set-member", SET, [userId, listingId, role]);
    await audit(tx, context, "member.set", listingId, { userId, role });
    return { listingId, userId, role };
  });
}

/** Takes a user's role on a listing away; RESOURCE_NOT_FOUND if there is none. */
export function removeMember(
  context: Context,
  { listingId, userId }: z.output<typeof removeMemberInput>,
): Promise<Membership> {
  return context.services.db.longTransaction(async (tx) => {
    // The listing before the membership, in the order in which writers of its forms take them.
    await tx.query("lock-listing-for-members", LOCK_LISTING, [listingId]);
    // One statement, so that of two removals at once the second finds nothing.
    const [row] = await tx.query<{ role: string }>("remove-member", REMOVE, [userId, listingId]);
    if (!row) throw notFound();
    await audit(tx, context, "member.removed", listingId, { userId });
    return { listingId, userId, role: row.role };
  });
}
