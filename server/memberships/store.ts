import type { z } from "zod";
import type { Call, Context } from "../access/context.js";
import { audit } from "../audit-trail/audit.js";
import { MAX_LIMIT } from "../constants.js";
import type { Sql } from "../database/db.js";
import { invalid, notFound } from "../errors.js";
import { type Page, readPage } from "../resources/paging.js";
import { lockUsers } from "../users/store.js";
import type * as schema from "./schema.js";
import type { Member, Membership } from "./schema.js";

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
 * Sets roles on listings that the transaction has locked or created. One listing per statement: with more, the trigger would
 * read all forms instead of those of the listing.
 */
export async function setRoles(tx: Sql, members: readonly Membership[]): Promise<void> {
  const setOn = (listingId: string) => {
    const ofListing = members.filter((member) => member.listingId === listingId);
    const users = ofListing.map(({ userId }) => userId);
    return tx.query("set-members", SET, [listingId, users, ofListing.map(({ role }) => role)]);
  };
  await Promise.all([...new Set(members.map(({ listingId }) => listingId))].map(setOn));
}

/** Also audits them. */
export async function setMembers(tx: Sql, context: Context, members: readonly Membership[]): Promise<void> {
  await setRoles(tx, members);
  const listingIds = members.map(({ listingId }) => listingId);
  const details = members.map(({ userId, role }) => ({ userId, role }));
  await audit(tx, context, "member.set", listingIds, details);
}

const REMOVE = `
  DELETE FROM memberships WHERE user_id = $1::uuid AND listing_id = $2::uuid RETURNING role::text`;

export const setMember = ({ ctx, input }: Call<typeof schema.setMemberInput>): Promise<Membership> =>
  ctx.services.db.longTransaction(async (tx) => {
    await lockUsers(tx, [input.userId], "userId");
    const [locked] = await lockListings(tx, [input.listingId]);
    if (!locked) throw invalid([{ field: "listingId", issue: "no listing has this id" }]);
    await setMembers(tx, ctx, [input]);
    return input;
  });

type MemberKey = z.output<typeof schema.removeMemberInput>;

/** Returns the removed role, if the user had one. */
const removeRole = (ctx: Context, { userId, listingId }: MemberKey): Promise<string | undefined> =>
  ctx.services.db.longTransaction(async (tx) => {
    // Locks the listing before the membership, like writers of its forms, to avoid deadlocks.
    await lockListings(tx, [listingId]);
    // One statement, so that the second of two concurrent removals finds nothing.
    const [row] = await tx.query<{ role: string }>("remove-member", REMOVE, [userId, listingId]);
    if (row) await audit(tx, ctx, "member.removed", listingId, { userId });
    return row?.role;
  });

export async function removeMember({ ctx, input }: Call<typeof schema.removeMemberInput>): Promise<Membership> {
  const role = await removeRole(ctx, input);
  if (role === undefined) throw notFound();
  return { ...input, role };
}

/** `id` is the user in a listing's list and the listing in a user's list. */
type MemberRow = Member & { id: string; createdAt: string };

const members = (of: "listing_id" | "user_id", other: "listing_id" | "user_id") => `
  SELECT m.${other} AS id, m.listing_created_at AS "createdAt", m.role::text,
    m.listing_id AS "listingId", l.title AS "listingTitle", m.user_id AS "userId", u.email AS "userEmail"
  FROM memberships m JOIN users u ON u.id = m.user_id JOIN listings l ON l.id = m.listing_id
  WHERE m.${of} = $4::uuid AND (m.listing_created_at, m.${other}) > ($1::timestamptz, $2::uuid)
  ORDER BY m.listing_created_at, m.${other}
  LIMIT $3::int`;

const MEMBERS_OF_LISTING = members("listing_id", "user_id");
const MEMBERSHIPS_OF_USER = members("user_id", "listing_id");

export function listMembers({ ctx, input }: Call<typeof schema.listMembersInput>): Promise<Page<Member>> {
  const { db } = ctx.services;
  const { listingId, userId } = input;
  return readPage(ctx, input, {
    identity: { list: "members", filters: { listingId, userId } },
    order: "oldest first",
    read: (page) =>
      listingId === undefined
        ? db.query<MemberRow>("memberships-of-user", MEMBERSHIPS_OF_USER, [...page, userId])
        : db.query<MemberRow>("members-of-listing", MEMBERS_OF_LISTING, [...page, listingId]),
    project: ({ id: _id, createdAt: _createdAt, ...member }) => member,
  });
}

/** Removes the user from all listings, one by one, and returns their ids. */
export async function removeMembershipsOfUser(ctx: Context, userId: string): Promise<string[]> {
  const removed: string[] = [];
  for (;;) {
    const { items } = await listMembers({ ctx, input: { userId, limit: MAX_LIMIT } });
    if (items.length === 0) return removed;
    for (const { listingId } of items) {
      if ((await removeRole(ctx, { listingId, userId })) !== undefined) removed.push(listingId);
    }
  }
}

const WITHOUT_OWNER = `
  SELECT l.id::text FROM unnest($1::uuid[]) AS l (id)
  WHERE NOT EXISTS (SELECT FROM memberships m WHERE m.listing_id = l.id AND m.role = 'OWNER')`;

/** Those of these listings that no user owns. */
export async function findWithoutOwner({ services }: Context, listingIds: string[]): Promise<string[]> {
  const rows = await services.db.query<{ id: string }>("listings-without-owner", WITHOUT_OWNER, [listingIds]);
  return rows.map(({ id }) => id);
}
