import type { z } from "zod";
import type { Membership as MembershipRow, User as UserRow } from "../../prisma/client/client.js";
import { audit } from "../audit.js";
import type { Context, Services, UserPrincipal } from "../context.js";
import type { Transaction } from "../db.js";
import { invalid, notFound, ServiceError } from "../errors.js";
import { changingScope } from "../scope.js";
import { canonicalEmail, isUuid } from "../values.js";
import type { createUserInput, Membership, removeMemberInput, setMemberInput, User } from "./schema.js";

/** A new user; VALIDATION_ERROR where the address is taken. */
export function createUser(context: Context, input: z.output<typeof createUserInput>): Promise<User> {
  return context.services.db.transaction(async (tx) => {
    const [row] = await tx.user.createManyAndReturn({
      data: [{ email: canonicalEmail(input.email), name: input.name ?? null }],
      skipDuplicates: true,
    });
    if (!row) throw invalid([{ field: "email", issue: "a user with this address exists already" }]);
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

/** The user with this id or this canonical address; RESOURCE_NOT_FOUND where there is none. */
export async function getUser(
  { services }: Context,
  where: { id: string } | { email: string },
): Promise<User> {
  if ("id" in where && !isUuid(where.id)) throw notFound();
  const row = await services.db.prisma.user.findUnique({
    where: "id" in where ? { id: where.id.toLowerCase() } : where,
  });
  if (!row) throw notFound();
  return projectUser(row);
}

/** Whom an internal tool acts for; UNAUTHENTICATED where there is no user with this id. */
export async function actAs({ db }: Services, userId: string): Promise<UserPrincipal> {
  const found =
    isUuid(userId) &&
    (await db.prisma.user.findUnique({ where: { id: userId.toLowerCase() }, select: { id: true } }));
  if (!found) throw new ServiceError("UNAUTHENTICATED", { message: "There is no user with this id." });
  return { kind: "user", userId: found.id };
}

/** The id of an existing user; VALIDATION_ERROR about `field` otherwise. */
export async function demandUser(tx: Transaction, id: string, field: string): Promise<string> {
  const found =
    isUuid(id) && (await tx.user.findUnique({ where: { id: id.toLowerCase() }, select: { id: true } }));
  if (!found) throw invalid([{ field, issue: "no user has this id" }]);
  return found.id;
}

/** Gives a user a role on a listing, in place of any they have. */
export function setMember(context: Context, input: z.output<typeof setMemberInput>): Promise<Membership> {
  return changingScope(context.services.db, async (tx) => {
    const userId = await demandUser(tx, input.userId, "userId");
    const [listing] = isUuid(input.listingId)
      ? // Before the insert shares it, for the trigger that then scopes the listing's forms takes it alone.
        await tx.$queryRaw<
          { id: string }[]
        >`SELECT id FROM listings WHERE id = ${input.listingId}::uuid FOR UPDATE`
      : [];
    if (!listing) throw invalid([{ field: "listingId", issue: "no listing has this id" }]);
    const { role } = input;
    const row = { listingId: listing.id, userId, role };
    await tx.$executeRaw`
      INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
      SELECT ${userId}::uuid, id, created_at, ${role}::"MembershipRole" FROM listings WHERE id = ${listing.id}::uuid
      ON CONFLICT (user_id, listing_id) DO UPDATE SET role = excluded.role`;
    await audit(tx, context, "member.set", listing.id, { userId, role });
    return row;
  });
}

/** The members of a listing, in the order of their ids. */
export async function listMembers({ services }: Context, listingId: string): Promise<Membership[]> {
  if (!isUuid(listingId)) return [];
  return services.db.prisma.membership.findMany({
    where: { listingId: listingId.toLowerCase() },
    orderBy: { userId: "asc" },
    select: { listingId: true, userId: true, role: true },
  });
}

/** Takes a user's role on a listing away; RESOURCE_NOT_FOUND where there is none. */
export function removeMember(
  context: Context,
  input: z.output<typeof removeMemberInput>,
): Promise<Membership> {
  return changingScope(context.services.db, async (tx) => {
    if (!isUuid(input.listingId) || !isUuid(input.userId)) throw notFound();
    const key = { listingId: input.listingId.toLowerCase(), userId: input.userId.toLowerCase() };
    // The listing before the membership, as writers of its forms take them.
    await tx.$queryRaw`SELECT id FROM listings WHERE id = ${key.listingId}::uuid FOR UPDATE`;
    // In one statement: of two removals at once, the second finds nothing.
    const [row] = await tx.$queryRaw<Pick<MembershipRow, "role">[]>`
      DELETE FROM memberships WHERE user_id = ${key.userId}::uuid AND listing_id = ${key.listingId}::uuid
      RETURNING role::text`;
    if (!row) throw notFound();
    await audit(tx, context, "member.removed", key.listingId, { userId: key.userId });
    return { ...key, role: row.role };
  });
}
