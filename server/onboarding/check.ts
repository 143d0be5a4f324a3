import type { Call } from "../access/context.js";
import type { Sql } from "../database/db.js";
import { type FieldError, fieldErrorsOf } from "../errors.js";
import { readTimeZoneNames } from "../listings/timezones.js";
import { inGroups } from "../values.js";
import { findReferences, type Member, missingOf, outcomesOf } from "./memberships.js";
import { countOutcomes } from "./outcomes.js";
import {
  BATCH,
  type Checked,
  type Counts,
  type checkInput,
  type Line,
  type LineError,
  type ListingRow,
  type Outcome,
  type Row,
  type RowType,
  row,
  rowsOf,
  type UserRow,
} from "./schema.js";
import { LISTINGS, plan, type Stored, type Table, USERS } from "./upsert.js";

export async function checkFile({ ctx, input }: Call<typeof checkInput>): Promise<Checked> {
  const file = new FileCheck(ctx.services.db, input.lines);
  const counts = {
    users: await file.checkTable(USERS, file.rowsOf("user")),
    listings: await file.checkTable(LISTINGS, file.rowsOf("listing")),
    memberships: await file.checkMemberships(),
  };
  return { errors: file.errors.sort((a, b) => a.line - b.line), counts };
}

/** Checks the rows of a file in the order in which they will be written, and collects the errors. */
class FileCheck {
  readonly errors: LineError[] = [];
  readonly #sql: Sql;
  /** The lines of the valid rows. */
  readonly #lines = new Map<Row, number>();
  readonly #names: Record<"user" | "listing", FileNames>;
  /** The first line that uses a value, to find values that a file has twice. */
  readonly #firstLines = new Map<string, number>();

  constructor(sql: Sql, lines: readonly Line[]) {
    this.#sql = sql;
    this.#names = { user: new FileNames(lines, "user"), listing: new FileNames(lines, "listing") };
    for (const { line, value } of lines) {
      const parsed = row.safeParse(value);
      if (parsed.success) this.#lines.set(parsed.data, line);
      else this.#addErrors(line, fieldErrorsOf(parsed.error));
    }
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
        this.#addErrors(this.#lineOf(row), repeated.length > 0 ? repeated : [...issues, ...same]);
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
          this.#addErrors(this.#lineOf(row), missingOf({ listing, user }));
          continue;
        }
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

/** The user or listing that a membership refers to. Two references to the same one have the same `key`. */
interface Reference {
  key: string;
  /** Undefined if the import creates it. */
  id: string | undefined;
}

const referenceTo = (stored: Stored | undefined): Reference | undefined => stored && { key: stored.id, id: stored.id };

/**
 * The users or listings of the file, by every name that a membership row may use. Rows that are invalid for another reason
 * count too: memberships that refer to them are not at fault.
 */
class FileNames {
  /** By external id; undefined if the row is not stored. */
  readonly #storedIds = new Map<string, string | undefined>();
  readonly #stored = new Set<string>();
  readonly #externalIdByEmail = new Map<string, string>();

  constructor(lines: readonly Line[], type: "user" | "listing") {
    for (const { value } of lines) {
      const fields = new Map<string, unknown>(Object.entries(value ?? {}));
      const externalId = trimmed(fields.get("externalId"));
      if (fields.get("type") !== type || !externalId) continue;
      this.#storedIds.set(externalId, undefined);
      const email = trimmed(fields.get("email")).toLowerCase();
      if (!this.#externalIdByEmail.has(email)) this.#externalIdByEmail.set(email, externalId);
    }
  }

  /** Records that the row with this external id is stored under this id. */
  setStoredId(externalId: string, id: string): void {
    this.#storedIds.set(externalId, id);
    this.#stored.add(id);
  }

  /** Whether a row of the file is stored under this id. */
  isStored = (id: string): boolean => this.#stored.has(id);

  /** The row with this external id. Undefined if the file has none. */
  find(externalId: string | undefined): Reference | undefined {
    if (externalId === undefined || !this.#storedIds.has(externalId)) return undefined;
    const id = this.#storedIds.get(externalId);
    return { id, key: id ?? `new ${externalId}` };
  }

  /** The row with this email address, ignoring case. Undefined if the file has none. */
  findByEmail = (email: string): Reference | undefined => this.find(this.#externalIdByEmail.get(email.toLowerCase()));
}

const trimmed = (value: unknown) => (typeof value === "string" ? value.trim() : "");
