import type { z } from "zod";
import type { User as UserRow } from "../../prisma/client/client.js";
import { audit } from "../audit.js";
import type { Context, Services, UserPrincipal } from "../context.js";
import { queryIn, type Sql, type Transaction } from "../db.js";
import { invalid, notFound, ServiceError } from "../errors.js";
import { canonicalEmail, resourceId } from "../values.js";
import type { createUserInput, Membership, removeMemberInput, setMemberInput, User } from "./schema.js";

/** Creates a user. VALIDATION_ERROR with the existing user's id if the address is taken, ignoring case. */
export function createUser(context: Context, input: z.output<typeof createUserInput>): Promise<User> {
  return context.services.db.transaction(async (tx) => {
    const [row] = await tx.user.createManyAndReturn({
      data: [{ email: canonicalEmail(input.email), name: input.name ?? null }],
      skipDuplicates: true,
    });
    if (!row) {
      const [taken] = await findByEmail(tx, input.email);
      throw invalid([{ field: "email", issue: `a user with this address already exists: ${taken?.id}` }]);
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

/** The user with this address, ignoring case; RESOURCE_NOT_FOUND if there is none. */
export async function findUserByEmail(context: Context, email: string): Promise<User> {
  const [found] = await findByEmail(context.services.db, email);
  if (!found) throw notFound();
  return getUser(context, found.id);
}

const BY_EMAIL = `SELECT id FROM users WHERE lower(email COLLATE "C") = $1`;

const findByEmail = (tx: Sql | Transaction, email: string) =>
  queryIn<{ id: string }>(tx, "user-by-email", BY_EMAIL, [email.toLowerCase()]);

/** The principal for an internal tool that acts for a user; UNAUTHENTICATED if there is no such user. */
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

const LOCK_LISTINGS = "SELECT id FROM listings WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE";

/**
 * Locks the listings whose members the transaction will change, and returns the ids of those that exist. Without this, the
 * insert's foreign key would take a shared lock that the trigger has to upgrade, which deadlocks.
 */
export async function lockListings(tx: Sql, ids: string[]): Promise<string[]> {
  const rows = await tx.query<{ id: string }>("lock-listings-for-members", LOCK_LISTINGS, [ids]);
  return rows.map(({ id }) => id);
}

const SET = `
  INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
  SELECT new.user_id, l.id, l.created_at, new.role
  FROM listings l, unnest($2::uuid[], $3::"MembershipRole"[]) AS new (user_id, role)
  WHERE l.id = $1::uuid
  ON CONFLICT (user_id, listing_id) DO UPDATE SET role = excluded.role`;

/**
 * Sets the roles of these users on one listing, which the transaction has locked. One listing per statement: with more, the
 * trigger would read all forms instead of those of the listing.
 */
export async function setRoles(
  tx: Sql,
  listingId: string,
  members: readonly Omit<Membership, "listingId">[],
): Promise<void> {
  const users = members.map(({ userId }) => userId);
  await tx.query("set-members", SET, [listingId, users, members.map(({ role }) => role)]);
}

const REMOVE = `
  DELETE FROM memberships WHERE user_id = $1::uuid AND listing_id = $2::uuid RETURNING role::text`;

/** Sets a user's role on a listing, replacing any previous one. Takes seconds on a listing with many forms. */
export function setMember(context: Context, input: z.output<typeof setMemberInput>): Promise<Membership> {
  const { userId, listingId, role } = input;
  return context.services.db.longTransaction(async (tx) => {
    await assertUserExists(tx, userId, "userId");
    const [locked] = await lockListings(tx, [listingId]);
    if (!locked) throw invalid([{ field: "listingId", issue: "no listing has this id" }]);
    await setRoles(tx, listingId, [{ userId, role }]);
    await audit(tx, context, "member.set", listingId, { userId, role });
    return { listingId, userId, role };
  });
}

/** Removes a user's role on a listing; RESOURCE_NOT_FOUND if there is none. */
export function removeMember(
  context: Context,
  { listingId, userId }: z.output<typeof removeMemberInput>,
): Promise<Membership> {
  return context.services.db.longTransaction(async (tx) => {
    // Locks the listing before the membership, like writers of its forms, to avoid deadlocks.
    await lockListings(tx, [listingId]);
    // One statement, so that the second of two concurrent removals finds nothing.
    const [row] = await tx.query<{ role: string }>("remove-member", REMOVE, [userId, listingId]);
    if (!row) throw notFound();
    await audit(tx, context, "member.removed", listingId, { userId });
    return { listingId, userId, role: row.role };
  });
}
