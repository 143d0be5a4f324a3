import { nanoid } from "nanoid";
import type { Sql } from "../db.js";
import { snakeCase } from "../resource.js";
import { isUuid } from "../values.js";
import { type ListingRow, ROW_SHAPES } from "./schema.js";
import { changesOf, type Target, type Upsert } from "./upsert.js";

const { type: _type, externalId: _externalId, ...shape } = ROW_SHAPES.listing;
const FIELDS = Object.keys(shape);
const COLUMNS = FIELDS.map(snakeCase);

/** Select list of the fields of a row, except `externalId`, over `listings l`. */
export const LISTING_FIELDS = FIELDS.map((field) => `l.${snakeCase(field)} AS "${field}"`).join(", ");

type StoredListing = Omit<ListingRow, "type" | "externalId"> & { id: string; externalId: string | null };

const FIND = `
  SELECT l.id, l.external_id AS "externalId", ${LISTING_FIELDS} FROM listings l
  WHERE l.external_id = ANY ($1::text[]) OR l.id = ANY ($2::uuid[])`;

/** Loads the listings with these names: external ids or ids. Returns a function that finds one. */
export async function findListings(
  sql: Sql,
  names: readonly string[],
): Promise<(name: string) => StoredListing | undefined> {
  const found = await sql.query<StoredListing>("listings-of-file", FIND, [names, names.filter(isUuid)]);
  const byExternalId = new Map(found.map((listing) => [listing.externalId, listing]));
  const byId = new Map(found.map((listing) => [listing.id, listing]));
  return (name) => byExternalId.get(name) ?? byId.get(name.toLowerCase());
}

async function planListings(sql: Sql, rows: readonly ListingRow[]): Promise<Upsert<ListingRow>[]> {
  const find = await findListings(
    sql,
    rows.map(({ externalId }) => externalId),
  );
  return rows.map((row) => {
    const { type: _, externalId: __, ...fields } = row;
    const stored = find(row.externalId);
    return { row, id: stored?.id, change: stored ? changesOf(stored, fields) : {}, issues: [] };
  });
}

export const listings: Target<ListingRow> = {
  table: "listings",
  columns: { insert: ["external_id", "public_id", ...COLUMNS], update: COLUMNS },
  noun: "listing",
  plan: planListings,
  unique: ({ externalId }) => ({ externalId }),
  toNew: ({ type: _, ...fields }) => ({ active: true, ...fields, publicId: nanoid() }),
};
