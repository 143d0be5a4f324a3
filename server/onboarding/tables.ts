import { nanoid } from "nanoid";
import type { Sql } from "../database/db.js";
import { columnsOf, snakeCase } from "../resources/resource.js";
import { canonicalEmail, isUuid } from "../values.js";
import { type ListingRow, ROW_SHAPES, type UserRow } from "./schema.js";

/** A table whose rows a file names by external id, and users also by email address. */
export interface Table<Row> {
  name: "users" | "listings";
  /** Start of the audited actions. */
  noun: "user" | "listing";
  /** Columns of the fields of a row. */
  columns: string[];
  /** The fields of a row, except `externalId`. Undefined is no change. */
  fieldsOf(row: Row): Record<string, unknown>;
  /** Fields that a row of a file lacks or may lack, for a new one. */
  newFields(): Record<string, unknown>;
  emailOf?(row: Row): string;
  /** The prepared statement that reads the rows with these external ids ($1), ids ($2) or, for users, addresses ($3). */
  find: [name: string, text: string];
}

const { type: _, externalId: __, ...listingShape } = ROW_SHAPES.listing;
const LISTING = Object.keys(listingShape);

/** Select list of the fields of a listing's row, except `externalId`, over `listings l`. */
export const LISTING_FIELDS = columnsOf(LISTING, "l");

export const LISTINGS: Table<ListingRow> = {
  name: "listings",
  noun: "listing",
  columns: ["external_id", ...LISTING.map(snakeCase)],
  fieldsOf: ({ type: _type, externalId: _externalId, ...fields }) => fields,
  newFields: () => ({ active: true, publicId: nanoid() }),
  find: [
    "listings-of-file",
    `SELECT l.id, l.external_id AS "externalId", ${LISTING_FIELDS} FROM listings l
    WHERE l.external_id = ANY ($1::text[]) OR l.id = ANY ($2::uuid[])`,
  ],
};

export const USERS: Table<UserRow> = {
  name: "users",
  noun: "user",
  columns: ["external_id", "email", "name"],
  fieldsOf: ({ email, name }) => ({ email: canonicalEmail(email), name }),
  newFields: () => ({}),
  emailOf: ({ email }) => email.toLowerCase(),
  find: [
    "users-of-file",
    `SELECT id, external_id AS "externalId", email, name FROM users
    WHERE external_id = ANY ($1::text[]) OR id = ANY ($2::uuid[]) OR lower(email COLLATE "C") = ANY ($3::text[])`,
  ],
};

/** A stored user or listing, with the fields of its row. */
export interface Stored extends Record<string, unknown> {
  id: string;
  externalId: string | null;
}

/** Stored rows by what a file may call them. */
export interface Index {
  byName(name: string): Stored | undefined;
  byEmail(email: string): Stored | undefined;
}

/** Loads the rows with these names (external ids or ids) or email addresses. */
export async function findRows<Row>(
  sql: Sql,
  { find: [name, text], emailOf }: Table<Row>,
  names: readonly string[],
  emails: readonly string[] = names,
): Promise<Index> {
  const values = [names, names.filter(isUuid), ...(emailOf ? [emails.map((email) => email.toLowerCase())] : [])];
  const found = await sql.query<Stored>(name, text, values);
  const byExternalId = new Map(found.map((row) => [row.externalId, row]));
  const byId = new Map(found.map((row) => [row.id, row]));
  const byEmail = new Map(found.map((row) => [String(row.email).toLowerCase(), row]));
  return {
    byName: (name) => byExternalId.get(name) ?? byId.get(name.toLowerCase()),
    byEmail: (email) => byEmail.get(email.toLowerCase()),
  };
}
