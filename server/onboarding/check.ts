import type { Context } from "../access/context.js";
import type { Sql } from "../database/db.js";
import { fieldErrorsOf } from "../errors.js";
import { type AddErrors, DuplicateFinder, FileNames, type RowWithLine } from "./file.js";
import { findReferences, type Member, missingOf, outcomesOf } from "./memberships.js";
import { countOutcomes, inGroups } from "./outcomes.js";
import {
  BATCH,
  type Checked,
  type Line,
  type LineError,
  type MembershipRow,
  type Outcome,
  type Row,
  type RowType,
  row,
} from "./schema.js";
import { LISTINGS, type Stored, type Table, USERS } from "./tables.js";
import { plan } from "./upsert.js";

export async function checkFile({ services: { db } }: Context, lines: readonly Line[]): Promise<Checked> {
  const errors: LineError[] = [];
  const addErrors: AddErrors = (line, found) => void errors.push(...found.map((error) => ({ line, ...error })));
  const rows: RowWithLine<Row>[] = [];
  for (const { line, value } of lines) {
    const parsed = row.safeParse(value);
    if (parsed.success) rows.push({ line, row: parsed.data });
    else addErrors(line, fieldErrorsOf(parsed.error));
  }
  const names = { users: new FileNames(lines, "user"), listings: new FileNames(lines, "listing") };
  const counts = {
    users: countOutcomes(await checkTable(db, USERS, rowsOf(rows, "user"), names.users, addErrors)),
    listings: countOutcomes(await checkTable(db, LISTINGS, rowsOf(rows, "listing"), names.listings, addErrors)),
    memberships: countOutcomes(await checkMemberships(db, rowsOf(rows, "membership"), names, addErrors)),
  };
  return { errors: errors.sort((a, b) => a.line - b.line), counts };
}

const rowsOf = <Type extends RowType>(rows: readonly RowWithLine<Row>[], type: Type) =>
  rows.filter((withLine): withLine is RowWithLine<Extract<Row, { type: Type }>> => withLine.row.type === type);

/** Checks the rows of one table, and records in `names` which of them are stored. */
async function checkTable<Of extends { externalId: string }>(
  sql: Sql,
  table: Table<Of>,
  rows: readonly RowWithLine<Of>[],
  names: FileNames,
  addErrors: AddErrors,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const uses = new DuplicateFinder();
  for (const group of inGroups(rows, BATCH)) {
    const given = group.map(({ row }) => row);
    for (const [index, { row, id, outcome, issues }] of (await plan(sql, table, given)).entries()) {
      const line = group[index]?.line ?? 0;
      const repeated = [
        ...uses.issuesOf("externalId", row.externalId, line, "is already on"),
        ...(table.emailOf ? uses.issuesOf("email", table.emailOf(row), line, "is already on") : []),
      ];
      const same = id ? uses.issuesOf("externalId", id, line, `names the same ${table.noun} as`) : [];
      addErrors(line, repeated.length > 0 ? repeated : [...issues, ...same]);
      if (id) names.setStoredId(row.externalId, id);
      outcomes.push(outcome);
    }
  }
  return outcomes;
}

/** Checks that each membership refers to a listing and a user of the file or the database, and is there once. */
async function checkMemberships(
  sql: Sql,
  rows: readonly RowWithLine<MembershipRow>[],
  names: { users: FileNames; listings: FileNames },
  addErrors: AddErrors,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const uses = new DuplicateFinder();
  const referenceOf = (stored: Stored | undefined) => stored && { key: stored.id, id: stored.id };
  for (const group of inGroups(rows, BATCH)) {
    const given = group.map(({ row }) => row);
    const { listings, users } = await findReferences(sql, given);
    const members: Member[] = [];
    for (const { line, row } of group) {
      // As they will be when the listings and users of the file are written.
      const listing = names.listings.find(row.listing) ?? referenceOf(listings.byName(row.listing));
      const byEmail = users.byEmail(row.user);
      const user =
        names.users.find(row.user) ??
        referenceOf(users.byName(row.user)) ??
        names.users.findByEmail(row.user) ??
        // A user of the file would have been found by the address that the file gives it.
        referenceOf(byEmail && !names.users.isStored(byEmail.id) ? byEmail : undefined);
      if (!listing || !user) {
        addErrors(line, missingOf(listing, user));
        continue;
      }
      const pair = `${listing.key} ${user.key}`;
      addErrors(line, uses.issuesOf("user", pair, line, "already has a role on this listing, on"));
      if (listing.id && user.id) members.push({ listingId: listing.id, userId: user.id, role: row.role });
      else outcomes.push("created");
    }
    outcomes.push(...(await outcomesOf(sql, members)));
  }
  return outcomes;
}
