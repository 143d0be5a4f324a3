import type { z } from "zod";
import type { Context } from "../access/context.js";
import type { Sql } from "../database/db.js";
import type { setMemberInput } from "../memberships/schema.js";
import { lockListings, setMembers } from "../memberships/store.js";
import { lockUsers } from "../users/store.js";
import { assertNoIssues, countOutcomes } from "./outcomes.js";
import type { Counts, MembershipRow, Outcome } from "./schema.js";
import { findRows, LISTINGS, USERS } from "./upsert.js";

const UNKNOWN = {
  listing: "names no listing of the file or the database: give an externalId or an id",
  user: "names no user of the file or the database: give an externalId, an id or an email address",
};

/** Why a membership cannot be written whose listing or user does not exist. */
export const missingOf = (found: Record<keyof typeof UNKNOWN, unknown>) =>
  (["listing", "user"] as const).filter((field) => !found[field]).map((field) => ({ field, issue: UNKNOWN[field] }));

/** A membership whose listing and user are known. */
export type Member = z.output<typeof setMemberInput>;

// A subquery instead of a join, for which the planner may read all memberships.
const ROLES = `
  SELECT (
    SELECT m.role::text FROM memberships m WHERE m.user_id = wanted.user_id AND m.listing_id = wanted.listing_id
  ) AS role
  FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS wanted (user_id, listing_id, position)
  ORDER BY wanted.position`;

/** Finds what setting each of these roles does. */
export async function outcomesOf(sql: Sql, members: readonly Member[]): Promise<Outcome[]> {
  const userIds = members.map(({ userId }) => userId);
  const listingIds = members.map(({ listingId }) => listingId);
  const stored = await sql.query<{ role: string | null }>("roles-of-file", ROLES, [userIds, listingIds]);
  return members.map(({ role }, index) => {
    const current = stored[index]?.role ?? null;
    return current === null ? "created" : current === role ? "unchanged" : "updated";
  });
}

/** Loads the listings and users that these rows name. */
export async function findReferences(sql: Sql, rows: readonly MembershipRow[]) {
  const listingNames = rows.map(({ listing }) => listing);
  const userNames = rows.map(({ user }) => user);
  const listings = await findRows(sql, LISTINGS, listingNames);
  const users = await findRows(sql, USERS, userNames);
  return { listings, users };
}

/**
 * The trigger writes a row per form and member. A listing with more forms than this gets a transaction of its own, so that
 * the other listings of the batch are not locked meanwhile.
 */
const MANY_FORMS = 100;

const LARGE = `
  SELECT l.id FROM unnest($1::uuid[]) AS l (id)
  WHERE EXISTS (SELECT FROM forms f WHERE f.listing_id = l.id OFFSET ${MANY_FORMS})`;

/** Sets roles: those on listings with few forms in one transaction, the others one by one. */
export async function writeMemberships(context: Context, rows: readonly MembershipRow[]): Promise<Counts> {
  const { db } = context.services;
  const { listings, users } = await findReferences(db, rows);
  const members = rows.map(({ listing, user, role }) => ({
    listingId: listings.byName(listing)?.id ?? "",
    userId: (users.byName(user) ?? users.byEmail(user))?.id ?? "",
    role,
  }));
  assertNoIssues(members.map(({ listingId, userId }) => ({ issues: missingOf({ listing: listingId, user: userId }) })));
  const outcomes = await outcomesOf(db, members);
  const changed = members.filter((_, index) => outcomes[index] !== "unchanged");
  const rowsOfLarge = await db.query<{ id: string }>("large-listings", LARGE, [listingsOf(changed)]);
  const large = new Set(rowsOfLarge.map(({ id }) => id));
  const small = changed.filter(({ listingId }) => !large.has(listingId));
  const written = small.length > 0 ? await db.sqlTransaction((tx) => setTogether(tx, context, small)) : [];
  for (const member of changed.filter(({ listingId }) => large.has(listingId)))
    written.push(...(await db.longTransaction((tx) => setTogether(tx, context, [member]))));
  return countOutcomes([...outcomes.filter((outcome) => outcome === "unchanged"), ...written]);
}

const listingsOf = (members: readonly Member[]) => [...new Set(members.map(({ listingId }) => listingId))];

async function setTogether(tx: Sql, context: Context, members: readonly Member[]): Promise<Outcome[]> {
  const userIds = members.map(({ userId }) => userId);
  await lockUsers(tx, userIds, "user");
  await lockListings(tx, listingsOf(members));
  // Again, because another import may have set them.
  const outcomes = await outcomesOf(tx, members);
  const changed = members.filter((_, index) => outcomes[index] !== "unchanged");
  await setMembers(tx, context, changed);
  return outcomes;
}
