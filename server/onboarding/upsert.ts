import { nanoid } from "nanoid";
import type { Context } from "../access/context.js";
import { audit } from "../audit-trail/audit.js";
import type { Sql } from "../database/db.js";
import { Conflict } from "../database/failures.js";
import type { FieldError } from "../errors.js";
import { readTimeZoneNames, type TimeZoneNames, UNKNOWN_TO_DATABASE } from "../listings/timezones.js";
import { columnsOf, snakeCase, toColumns } from "../resources/resource.js";
import { ERASED_EMAIL } from "../users/store.js";
import { canonicalEmail, isUuid, omitUndefined } from "../values.js";
import { assertNoIssues, countOutcomes } from "./outcomes.js";
import { type ListingRow, type Outcome, ROW_SHAPES, type UserRow, type Written } from "./schema.js";

/** A table whose rows a file names by external id, and users also by email address. */
export interface Table<Row> {
  noun: "user" | "listing";
  /** The fields of a row that `fieldNames` has. Undefined is no change. */
  fieldsOf(row: Row, timeZones: TimeZoneNames): Record<string, unknown>;
  /** What the database cannot store of a row. */
  issuesOf?(row: Row, timeZones: TimeZoneNames): FieldError[];
  /** Fields that a row of a file lacks or may lack, for a new one. */
  newFields(): Record<string, unknown>;
  emailOf?(row: Row): string;
}

export const LISTINGS: Table<ListingRow> = {
  noun: "listing",
  fieldsOf: ({ type: _type, externalId: _externalId, id: _id, ...fields }, timeZones) => ({
    ...fields,
    timezone: timeZones.get(fields.timezone.toLowerCase()),
  }),
  issuesOf: ({ timezone }, timeZones) =>
    timeZones.has(timezone.toLowerCase()) ? [] : [{ field: "timezone", issue: UNKNOWN_TO_DATABASE }],
  newFields: () => ({ active: true, publicId: nanoid() }),
};

export const USERS: Table<UserRow> = {
  noun: "user",
  fieldsOf: ({ email, name }) => ({ email: canonicalEmail(email), name }),
  newFields: () => ({}),
  emailOf: ({ email }) => email.toLowerCase(),
};

/** Names of the fields of a row, except `type`, `externalId` and `id`. */
export const fieldNames = (noun: "user" | "listing") => {
  const { type: _type, externalId: _externalId, id: _id, ...fields } = ROW_SHAPES[noun];
  return Object.keys(fields);
};

/** A stored user or listing, with the fields of its row. */
export interface Stored extends Record<string, unknown> {
  id: string;
  externalId: string | null;
}

const IS_NAMED = "t.external_id = ANY ($1::text[]) OR t.id = ANY ($2::uuid[])";

const find = (noun: "user" | "listing", condition: string) => `
  SELECT t.id, t.external_id AS "externalId", ${columnsOf(fieldNames(noun), "t")} FROM ${noun}s t WHERE ${condition}`;

// An import would bring erased users back.
const IS_NOT_ERASED = `t.email <> t.${ERASED_EMAIL}`;

const FIND = {
  listing: find("listing", IS_NAMED),
  user: find("user", `(${IS_NAMED} OR lower(t.email COLLATE "C") = ANY ($3::text[])) AND ${IS_NOT_ERASED}`),
};

/** Loads the rows with these names (external ids or ids) or, for users, email addresses. */
export async function findRows<Row>(
  sql: Sql,
  { noun, emailOf }: Table<Row>,
  names: readonly string[],
  emails: readonly string[] = names,
) {
  const values = [names, names.filter(isUuid), ...(emailOf ? [emails.map((email) => email.toLowerCase())] : [])];
  const found = await sql.query<Stored>(`${noun}s-of-file`, FIND[noun], values);
  const byExternalId = new Map(found.map((row) => [row.externalId, row]));
  const byId = new Map(found.map((row) => [row.id, row]));
  const byEmail = new Map(found.map((row) => [String(row.email).toLowerCase(), row]));
  return {
    byName: (name: string) => byExternalId.get(name) ?? byId.get(name.toLowerCase()),
    byId: (id: string) => byId.get(id),
    byEmail: (email: string) => byEmail.get(email.toLowerCase()),
  };
}

/** The planned insert or update for one row. */
interface Upsert<Row> {
  row: Row;
  /** Id of the row that it names; undefined if it creates one. */
  id: string | undefined;
  /** The fields that get another value. */
  change: Record<string, unknown>;
  outcome: Outcome;
  /** Why it cannot be written. */
  issues: FieldError[];
}

interface NamedRow {
  externalId: string;
  id?: string | null | undefined;
}

/**
 * Plans the write of these rows. A listing or user without external id who has the row's id, or the row's address, is the same
 * one, and gets the row's external id.
 */
export async function plan<Row extends NamedRow>(
  sql: Sql,
  table: Table<Row>,
  rows: readonly Row[],
  timeZones: TimeZoneNames,
): Promise<Upsert<Row>[]> {
  const names = rows.flatMap(({ externalId, id }) => [externalId, ...(id ? [id] : [])]);
  const index = await findRows(sql, table, names, table.emailOf && rows.map(table.emailOf));
  return rows.map((row) => {
    const named = index.byName(row.externalId);
    const holder = table.emailOf && index.byEmail(table.emailOf(row));
    const withId = row.id ? index.byId(row.id) : undefined;
    const stored = named ?? [withId, holder].find((candidate) => candidate?.externalId === null);
    const given = omitUndefined({ ...table.fieldsOf(row, timeZones), externalId: named ? undefined : row.externalId });
    const changed = Object.entries(given).filter(([field, value]) => value !== stored?.[field]);
    return {
      row,
      id: stored?.id,
      change: Object.fromEntries(changed),
      outcome: !stored ? "created" : changed.length > 0 ? "updated" : "unchanged",
      issues: [
        ...(table.issuesOf?.(row, timeZones) ?? []),
        ...(withId && withId.id !== stored?.id
          ? [{ field: "id", issue: `belongs to another ${table.noun}: ${withId.externalId ?? "without externalId"}` }]
          : []),
        ...(holder && holder.id !== stored?.id
          ? [{ field: "email", issue: `another user has this address: ${holder.id}` }]
          : []),
      ],
    };
  });
}

const insertInto = (table: string, columns: string[]) => `
  INSERT INTO ${table} (${columns})
  SELECT ${columns} FROM jsonb_populate_recordset(NULL::${table}, $1::jsonb)
  ON CONFLICT DO NOTHING RETURNING id, external_id AS "externalId"`;

// Populates from the current row, so that fields that do not change keep what another transaction has written.
const update = (noun: "user" | "listing", columns: string[]) => `
  UPDATE ${noun}s t SET (${columns}) = (
    SELECT ${columns.map((column) => `p.${column}`)} FROM jsonb_populate_record(t, changed.fields) p
  )
  FROM unnest($1::uuid[], $2::jsonb[]) AS changed (id, fields)
  WHERE t.id = changed.id${noun === "user" ? ` AND ${IS_NOT_ERASED}` : ""}
  RETURNING t.id`;

/** Creates and updates the rows in one transaction. VALIDATION_ERROR if one cannot be written. */
export async function upsert<Row extends NamedRow>(
  context: Context,
  table: Table<Row>,
  rows: readonly Row[],
): Promise<Written> {
  const { db } = context.services;
  const timeZones = await readTimeZoneNames(db);
  return db.sqlTransaction(async (tx) => {
    const planned = await plan(tx, table, rows, timeZones);
    assertNoIssues(planned);
    // The same order in every import, which prevents deadlocks.
    const sorted = planned.toSorted((a, b) => (a.row.externalId < b.row.externalId ? -1 : 1));
    const name = `${table.noun}s`;
    const columns = ["external_id", ...fieldNames(table.noun).map(snakeCase)];
    const idsByExternalId = new Map<string | null, string>();
    const created = sorted
      .filter(({ outcome }) => outcome === "created")
      .map(({ change }) => ({ ...table.newFields(), ...change }));
    if (created.length > 0) {
      const all = new Set([...columns, ...Object.keys(toColumns(table.newFields()))]);
      const text = insertInto(name, [...all]);
      const inserted = await tx.query<Stored>(`import-${name}`, text, [JSON.stringify(created.map(toColumns))]);
      if (inserted.length < created.length) throw new Conflict(`others have created ${name} of this batch`);
      for (const { id, externalId } of inserted) idsByExternalId.set(externalId, id);
      await audit(tx, context, `${table.noun}.created`, [...idsByExternalId.values()]);
    }
    const updated = sorted.filter(({ outcome }) => outcome === "updated");
    if (updated.length > 0) {
      const changes = updated.map(({ change }) => JSON.stringify(toColumns(change)));
      const ids = updated.map(({ id = "" }) => id);
      const written = await tx.query(`reimport-${name}`, update(table.noun, columns), [ids, changes]);
      if (written.length < ids.length) throw new Conflict(`others have erased ${name} of this batch`);
      const details = updated.map(({ change }) => detailsOf(change));
      await audit(tx, context, `${table.noun}.updated`, ids, details);
    }
    return {
      ...countOutcomes(planned.map(({ outcome }) => outcome)),
      ids: planned.map(({ id, row }) => id ?? idsByExternalId.get(row.externalId) ?? ""),
    };
  });
}

const detailsOf = (change: object) => ({
  fields: Object.keys(change),
  ...("active" in change && { active: change.active === true }),
});
