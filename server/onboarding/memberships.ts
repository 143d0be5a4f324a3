import { auditEach } from "../audit.js";
import type { Context } from "../context.js";
import type { Sql } from "../db.js";
import { lockListings, setMember, setRoles } from "../people/store.js";
import { findListings } from "./listings.js";
import { assertNoIssues, countOutcomes } from "./outcomes.js";
import type { Counts, MembershipRow, Outcome } from "./schema.js";
import { findUsers } from "./users.js";

export const NO_LISTING = {
  field: "listing",
  issue: "names no listing of the file or the database: give an externalId or an id",
};
export const NO_USER = {
  field: "user",
  issue: "names no user of the file or the database: give an externalId, an id or an email address",
};

/** A membership whose listing and user are known. */
export interface Member {
  listingId: string;
  userId: string;
  role: MembershipRow["role"];
}

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

/** Finds the listings and users by their names in the file. */
async function findMembers(sql: Sql, rows: readonly MembershipRow[]): Promise<Member[]> {
  const names = rows.map(({ user }) => user);
  const [findListing, users] = await Promise.all([
    findListings(
      sql,
      rows.map(({ listing }) => listing),
    ),
    findUsers(sql, names, names),
  ]);
  const members = rows.map(({ listing, user, role }) => ({
    listingId: findListing(listing)?.id,
    userId: (users.byName(user) ?? users.byEmail(user))?.id,
    role,
  }));
  assertNoIssues(
    members.map(({ listingId, userId }) => ({
      issues: [...(listingId ? [] : [NO_LISTING]), ...(userId ? [] : [NO_USER])],
    })),
  );
  return members.map(({ listingId = "", userId = "", role }) => ({ listingId, userId, role }));
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
  const members = await findMembers(db, rows);
  const outcomes = await outcomesOf(db, members);
  const changed = members.filter((_, index) => outcomes[index] !== "unchanged");
  const found = await db.query<{ id: string }>("large-listings", LARGE, [listingsOf(changed)]);
  const large = new Set(found.map(({ id }) => id));
  const isLarge = ({ listingId }: Member) => large.has(listingId);
  const small = changed.filter((member) => !isLarge(member));
  const written = small.length > 0 ? await setTogether(context, small) : [];
  for (const member of changed.filter(isLarge)) await setMember(context, member);
  const others = outcomes.filter((_, index) => !small.includes(members[index] as Member));
  return countOutcomes([...written, ...others]);
}

const listingsOf = (members: readonly Member[]) => [...new Set(members.map(({ listingId }) => listingId))];

const setTogether = (context: Context, members: readonly Member[]): Promise<Outcome[]> =>
  context.services.db.sqlTransaction(async (tx) => {
    await lockListings(tx, listingsOf(members));
    // Again, because another import may have set them.
    const outcomes = await outcomesOf(tx, members);
    const changed = members.filter((_, index) => outcomes[index] !== "unchanged");
    await Promise.all(
      listingsOf(changed).map((id) =>
        setRoles(
          tx,
          id,
          changed.filter(({ listingId }) => listingId === id),
        ),
      ),
    );
    await auditEach(
      tx,
      context,
      "member.set",
      changed.map(({ listingId, userId, role }) => ({ subjectId: listingId, details: { userId, role } })),
    );
    return outcomes;
  });
