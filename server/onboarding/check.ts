import type { Call } from "../access/context.js";
import type { Sql } from "../database/db.js";
import { type FieldError, fieldErrorsOf } from "../errors.js";
import { readTimeZoneNames } from "../listings/timezones.js";
import { inGroups } from "../values.js";
import { FileNames, fieldsOf, referenceTo, toName } from "./file-names.js";
import { findReferences, type Member, missingOf, outcomesOf } from "./memberships.js";
import { countOutcomes } from "./outcomes.js";
import {
  BATCH,
  type Checked,
  type CheckInput,
  type Counts,
  type checkInput,
  type LineError,
  type ListingRow,
  type Outcome,
  type Row,
  type RowType,
  row,
  rowsOf,
  type UserRow,
} from "./schema.js";
import { LISTINGS, plan, type Table, USERS } from "./upsert.js";

export async function checkFile({ ctx, input }: Call<typeof checkInput>): Promise<Checked> {
  const file = new FileCheck(ctx.services.db, input);
  const counts = {
    users: await file.checkTable(USERS, file.rowsOf("user")),
    listings: await file.checkTable(LISTINGS, file.rowsOf("listing")),
    memberships: await file.checkMemberships(),
  };
  return { errors: file.errors.sort((a, b) => a.line - b.line), counts };
}

const NOUNS = ["listing", "user"] as const;

/** Checks the rows of a file in the order in which they will be written, and collects the errors. */
class FileCheck {
  readonly errors: LineError[] = [];
  readonly #sql: Sql;
  /** The lines of the valid rows. */
  readonly #lines = new Map<Row, number>();
  readonly #names: Record<(typeof NOUNS)[number], FileNames>;
  /** The first line that uses a value, to find values that a file has twice. */
  readonly #firstLines = new Map<string, number>();

  constructor(sql: Sql, { lines, isPartial = false }: CheckInput) {
    this.#sql = sql;
    this.#names = {
      user: new FileNames(lines, "user", isPartial),
      listing: new FileNames(lines, "listing", isPartial),
    };
    const invalid = lines.flatMap(({ line, value }) => {
      const parsed = row.safeParse(value);
      if (!parsed.success) return [{ line, value, errors: fieldErrorsOf(parsed.error) }];
      this.#lines.set(parsed.data, line);
      return [];
    });
    for (const { value, errors } of invalid) this.#setInvalid(value, errors);
    for (const { line, value, errors } of invalid) this.#addErrors(line, this.#withoutConsequences(value, errors));
  }

  /** Records that a row of the file is invalid. One of an unknown type may be a user or a listing. */
  #setInvalid(value: unknown, errors: readonly FieldError[]): void {
    const fields = errors.map(({ field }) => field);
    const type = fieldsOf(value).get("type");
    for (const noun of NOUNS) if (type === noun || fields.includes("type")) this.#names[noun].setInvalid(value, fields);
  }

  /** The errors of a row, except those of a membership with the name of an invalid row, which has the same error. */
  #withoutConsequences(value: unknown, errors: readonly FieldError[]): FieldError[] {
    const fields = fieldsOf(value);
    const isConsequence = ({ field }: FieldError) =>
      NOUNS.some((noun) => noun === field && this.#names[noun].isInvalid(toName(fields.get(field))));
    return errors.filter((error) => fields.get("type") !== "membership" || !isConsequence(error));
  }

  #lineOf = (row: Row) => this.#lines.get(row) ?? 0;

  rowsOf = <Type extends RowType>(type: Type) => rowsOf([...this.#lines.keys()], type);

  #addErrors(line: number, errors: readonly FieldError[]): void {
    this.errors.push(...errors.map((error) => ({ line, ...error })));
  }

  /** Returns an issue that names the first line, unless this is the first row of its type with the value. */
  #issuesOfUse(row: Row, field: string, value: string, issue: string): FieldError[] {
    const key = JSON.stringify([row.type, issue, field, value]);
    const first = this.#firstLines.get(key);
    if (first === undefined) this.#firstLines.set(key, this.#lineOf(row));
    return first === undefined ? [] : [{ field, issue: `${issue} line ${first}` }];
  }

  /** Checks the rows of one table, and records which of them are stored. */
  async checkTable<Of extends UserRow | ListingRow>(table: Table<Of>, rows: readonly Of[]): Promise<Counts> {
    const { noun, emailOf } = table;
    const outcomes: Outcome[] = [];
    const timeZones = await readTimeZoneNames(this.#sql);
    for (const group of inGroups(rows, BATCH)) {
      for (const { row, id, outcome, issues } of await plan(this.#sql, table, group, timeZones)) {
        const repeated = [
          ...this.#issuesOfUse(row, "externalId", row.externalId, "is already on"),
          ...(emailOf ? this.#issuesOfUse(row, "email", emailOf(row), "is already on") : []),
        ];
        const same = id ? this.#issuesOfUse(row, "externalId", id, `names the same ${noun} as`) : [];
        const errors = repeated.length > 0 ? repeated : [...issues, ...same];
        this.#addErrors(this.#lineOf(row), errors);
        if (errors.length > 0) this.#setInvalid(row, errors);
        if (id) this.#names[noun].setStoredId(row.externalId, id);
        outcomes.push(outcome);
      }
    }
    return countOutcomes(outcomes);
  }

  /** Checks that each membership refers to a listing and a user of the file or the database, and is there once. */
  async checkMemberships(): Promise<Counts> {
    const outcomes: Outcome[] = [];
    for (const group of inGroups(this.rowsOf("membership"), BATCH)) {
      const stored = await findReferences(this.#sql, group);
      const members: Member[] = [];
      for (const row of group) {
        // As they will be when the listings and users of the file are written.
        const listing = this.#names.listing.find(row.listing) ?? referenceTo(stored.listings.byName(row.listing));
        const byEmail = stored.users.byEmail(row.user);
        const user =
          this.#names.user.find(row.user) ??
          referenceTo(stored.users.byName(row.user)) ??
          this.#names.user.findByEmail(row.user) ??
          // A user of the file would have been found by the address that the file gives it.
          referenceTo(byEmail && !this.#names.user.isStored(byEmail.id) ? byEmail : undefined);
        if (!listing || !user) {
          const missing = missingOf({ listing, user });
          this.#addErrors(
            this.#lineOf(row),
            missing.filter(({ field }) => !this.#names[field].mayBeInvalid(row[field])),
          );
          continue;
        }
        if (NOUNS.some((noun) => this.#names[noun].isInvalid(row[noun]))) continue;
        const pair = `${listing.key} ${user.key}`;
        const repeated = this.#issuesOfUse(row, "user", pair, "already has a role on this listing, on");
        this.#addErrors(this.#lineOf(row), repeated);
        if (listing.id && user.id) members.push({ listingId: listing.id, userId: user.id, role: row.role });
        else outcomes.push("created");
      }
      outcomes.push(...(await outcomesOf(this.#sql, members)));
    }
    return countOutcomes(outcomes);
  }
}
