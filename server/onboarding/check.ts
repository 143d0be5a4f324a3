import type { Context } from "../context.js";
import type { Sql } from "../db.js";
import { fieldErrorsOf } from "../errors.js";
import { checkMemberships } from "./check-memberships.js";
import { FileNames, FirstUses, type Located, type Report } from "./file.js";
import { listings } from "./listings.js";
import { countOutcomes, inGroups } from "./outcomes.js";
import {
  BATCH,
  type Checked,
  type Line,
  type LineError,
  type Outcome,
  type Row,
  type RowType,
  row,
} from "./schema.js";
import { outcomeOf, type Target } from "./upsert.js";
import { users } from "./users.js";

/** Checks a whole file, also against the database, and finds what an import would do. Writes nothing. */
export async function checkFile({ services: { db } }: Context, lines: readonly Line[]): Promise<Checked> {
  const errors: LineError[] = [];
  const report: Report = (line, found) => void errors.push(...found.map((error) => ({ line, ...error })));
  const rows: Located<Row>[] = [];
  for (const { line, value } of lines) {
    const parsed = row.safeParse(value);
    if (parsed.success) rows.push({ line, row: parsed.data });
    else report(line, fieldErrorsOf(parsed.error));
  }
  const names = { users: new FileNames(lines, "user"), listings: new FileNames(lines, "listing") };
  const counts = {
    users: countOutcomes(await checkTable(db, users, locatedOf(rows, "user"), names.users, report)),
    listings: countOutcomes(
      await checkTable(db, listings, locatedOf(rows, "listing"), names.listings, report),
    ),
    memberships: countOutcomes(await checkMemberships(db, locatedOf(rows, "membership"), names, report)),
  };
  return { errors: errors.sort((a, b) => a.line - b.line), counts };
}

const locatedOf = <Type extends RowType>(rows: readonly Located<Row>[], type: Type) =>
  rows.filter((located): located is Located<Extract<Row, { type: Type }>> => located.row.type === type);

/** Checks the rows of one table, and records in `names` which of them are stored. */
async function checkTable<Of extends { externalId: string }>(
  sql: Sql,
  target: Target<Of>,
  rows: readonly Located<Of>[],
  names: FileNames,
  report: Report,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const uses = new FirstUses();
  for (const group of inGroups(rows, BATCH)) {
    const plan = await target.plan(
      sql,
      group.map(({ row }) => row),
    );
    for (const [index, { row, id, change, issues }] of plan.entries()) {
      const line = group[index]?.line ?? 0;
      const repeated = Object.entries(target.unique(row)).flatMap(([field, value]) =>
        uses.issuesOf(field, value, line, "is already on"),
      );
      const same = id ? uses.issuesOf("externalId", id, line, `names the same ${target.noun} as`) : [];
      report(line, repeated.length > 0 ? repeated : [...issues, ...same]);
      if (id) names.setStoredId(row.externalId, id);
      outcomes.push(outcomeOf({ id, change }));
    }
  }
  return outcomes;
}
