import type { z } from "zod";
import type { Context } from "../context.js";
import { descendingKeysetValues, keysetValues, type Page, readPage } from "../paging.js";
import type { listMembersInput, listUsersInput, Member, User } from "./schema.js";

const USERS = `
  SELECT id, email, name, created_at AS "createdAt"
  FROM users
  WHERE (created_at, id) < ($1::timestamptz, $2::uuid)
  ORDER BY created_at DESC, id DESC
  LIMIT $3::int`;

/** A page of all users, newest first. */
export const listUsers = (
  { services: { db, keyring } }: Context,
  input: z.output<typeof listUsersInput>,
): Promise<Page<User>> =>
  readPage({
    ...input,
    keys: keyring.cursor,
    identity: { list: "users" },
    read: (after, take) => db.query<User>("newest-users", USERS, descendingKeysetValues(after, take)),
  });

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

/** A page of a listing's members or a user's memberships, oldest listing first. */
export async function listMembers(
  { services: { db, keyring } }: Context,
  { limit, cursor, listingId, userId }: z.output<typeof listMembersInput>,
): Promise<Page<Member>> {
  const { items, nextCursor } = await readPage({
    limit,
    cursor,
    keys: keyring.cursor,
    identity: { list: "members", listingId, userId },
    read: (after, take) =>
      listingId === undefined
        ? db.query<MemberRow>("memberships-of-user", MEMBERSHIPS_OF_USER, [
            ...keysetValues(after, take),
            userId,
          ])
        : db.query<MemberRow>("members-of-listing", MEMBERS_OF_LISTING, [
            ...keysetValues(after, take),
            listingId,
          ]),
  });
  return { items: items.map(({ id: _id, createdAt: _createdAt, ...member }) => member), nextCursor };
}
