import type { Sql } from "../db.js";
import { type FileNames, FirstUses, type Located, type Referent, type Report } from "./file.js";
import { findListings } from "./listings.js";
import { type Member, NO_LISTING, NO_USER, outcomesOf } from "./memberships.js";
import { inGroups } from "./outcomes.js";
import { BATCH, type MembershipRow, type Outcome } from "./schema.js";
import { findUsers } from "./users.js";

interface Names {
  users: FileNames;
  listings: FileNames;
}

/** Checks that each membership refers to a listing and a user of the file or the database, and is there once. */
export async function checkMemberships(
  sql: Sql,
  rows: readonly Located<MembershipRow>[],
  names: Names,
  report: Report,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const uses = new FirstUses();
  for (const group of inGroups(rows, BATCH)) {
    const find = await referencesOf(
      sql,
      group.map(({ row }) => row),
      names,
    );
    const stored: Member[] = [];
    for (const { line, row } of group) {
      const listing = find.listing(row.listing);
      const user = find.user(row.user);
      if (!listing || !user) report(line, [...(listing ? [] : [NO_LISTING]), ...(user ? [] : [NO_USER])]);
      else {
        report(
          line,
          uses.issuesOf("user", `${listing.key} ${user.key}`, line, "already has a role on this listing, on"),
        );
        if (listing.id && user.id) stored.push({ listingId: listing.id, userId: user.id, role: row.role });
        else outcomes.push("created");
      }
    }
    outcomes.push(...(await outcomesOf(sql, stored)));
  }
  return outcomes;
}

/** Finds the listings and users as they will be when the listings and users of the file are written. */
async function referencesOf(sql: Sql, rows: readonly MembershipRow[], names: Names) {
  const userNames = rows.map(({ user }) => user);
  const findStored = await findListings(
    sql,
    rows.map(({ listing }) => listing),
  );
  const stored = await findUsers(sql, userNames, userNames);
  const storedByEmail = (email: string) => {
    const user = stored.byEmail(email);
    // A user of the file would have been found by the address that the file gives it.
    return user && !names.users.isStored(user.id) ? user : undefined;
  };
  return {
    listing: (name: string) => names.listings.find(name) ?? referentOf(findStored(name)),
    user: (name: string) =>
      names.users.find(name) ??
      referentOf(stored.byName(name)) ??
      names.users.findByEmail(name) ??
      referentOf(storedByEmail(name)),
  };
}

const referentOf = (stored: { id: string } | undefined): Referent | undefined =>
  stored && { key: stored.id, id: stored.id };
