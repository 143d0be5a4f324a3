import { nanoid } from "nanoid";
import type { Call, ScopedContext } from "../access/context.js";
import { membershipInScope } from "../access/scope.js";
import { audit } from "../audit-trail/audit.js";
import { ON_PRIMARY } from "../database/primary.js";
import { notFound } from "../errors.js";
import { setRoles } from "../memberships/store.js";
import { type Page, readPage } from "../resources/paging.js";
import { containsSql, selectList, snakeCase, toColumns } from "../resources/resource.js";
import { lockUsers } from "../users/store.js";
import { omitUndefined, uuidOrNull } from "../values.js";
import type * as schema from "./schema.js";
import { type Listing, listing, type OperatorListing, operatorListing, updateInput } from "./schema.js";
import { canonicalTimeZone } from "./timezones.js";

/** Select list of the public listing over `listings l`. */
const COLUMNS = selectList(listing, "l");

const OPERATOR_COLUMNS = selectList(operatorListing, "l");

const GET = `
  SELECT ${COLUMNS}
  FROM memberships m JOIN listings l ON l.id = m.listing_id
  WHERE ${membershipInScope("$1")} AND m.listing_id = $2::uuid AND ${ON_PRIMARY}`;

export async function getListing({ ctx, input }: Call<typeof schema.getInput, ScopedContext>): Promise<Listing> {
  const values = [ctx.principal.userId, input.id];
  const [row] = await ctx.services.reads.run((sql) => sql.query<Listing>("listing", GET, values), ctx.signal);
  if (!row) throw notFound("listing");
  return row;
}

// A membership has its listing's creation time, so a page is one index range at any size of scope.
const LIST = `
  SELECT ${COLUMNS}
  FROM (
    SELECT m.listing_id, m.listing_created_at
    FROM memberships m
    WHERE ${membershipInScope("$1")} AND (m.listing_created_at, m.listing_id) > ($2::timestamptz, $3::uuid)
    ORDER BY m.listing_created_at, m.listing_id
    LIMIT $4::int
  ) page
  JOIN listings l ON l.id = page.listing_id
  WHERE ${ON_PRIMARY}
  ORDER BY page.listing_created_at, page.listing_id`;

export function listListings({ ctx, input }: Call<typeof schema.listInput, ScopedContext>): Promise<Page<Listing>> {
  return ctx.services.reads.run(
    (sql) =>
      readPage(ctx, input, {
        identity: { list: "listings" },
        order: "oldest first",
        read: (page) => sql.query<Listing>("listings", LIST, [ctx.principal.userId, ...page]),
        project: (row) => row,
      }),
    ctx.signal,
  );
}

const GET_ANY = `SELECT ${OPERATOR_COLUMNS} FROM listings l WHERE l.id = $1::uuid`;

export async function getAnyListing({ ctx, input }: Call<typeof schema.getInput>): Promise<OperatorListing> {
  const [row] = await ctx.services.db.query<OperatorListing>("any-listing", GET_ANY, [input.id]);
  if (!row) throw notFound("listing");
  return row;
}

const FIND = `
  SELECT ${OPERATOR_COLUMNS}
  FROM listings l
  WHERE l.external_id = $1::text OR l.id = $2::uuid`;

export async function findListing({ ctx, input }: Call<typeof schema.findInput>): Promise<OperatorListing> {
  const values = [input.listing, uuidOrNull(input.listing)];
  const [row] = await ctx.services.db.query<OperatorListing>("find-listing", FIND, values);
  if (!row) throw notFound("listing");
  return row;
}

const MATCHES = containsSql("$4", ["l.title", "l.city", "l.external_id"]);

const NEWEST = `
  SELECT ${OPERATOR_COLUMNS}
  FROM listings l
  WHERE (l.created_at, l.id) < ($1::timestamptz, $2::uuid) AND ${MATCHES}
  ORDER BY l.created_at DESC, l.id DESC
  LIMIT $3::int`;

const NEWEST_OF_USER = `
  SELECT ${OPERATOR_COLUMNS}
  FROM memberships m JOIN listings l ON l.id = m.listing_id
  WHERE ${membershipInScope("$5")} AND (m.listing_created_at, m.listing_id) < ($1::timestamptz, $2::uuid) AND ${MATCHES}
  ORDER BY m.listing_created_at DESC, m.listing_id DESC
  LIMIT $3::int`;

export function listAllListings({ ctx, input }: Call<typeof schema.listAllInput>): Promise<Page<OperatorListing>> {
  const { db } = ctx.services;
  const { userId, search } = input;
  return readPage(ctx, input, {
    identity: { list: "all listings", filters: { userId, search } },
    order: "newest first",
    read(page) {
      const values = [...page, search ?? null];
      return userId === undefined
        ? db.query<OperatorListing>("newest-listings", NEWEST, values)
        : db.query<OperatorListing>("newest-listings-of-user", NEWEST_OF_USER, [...values, userId]);
    },
    project: (row) => row,
  });
}

/** The columns of the fields that the operator sets. */
const SET = Object.keys(updateInput.omit({ id: true }).shape).map(snakeCase);

const CREATE = `
  INSERT INTO listings AS l (public_id, ${SET})
  SELECT public_id, ${SET} FROM jsonb_populate_record(NULL::listings, $1::jsonb)
  RETURNING ${OPERATOR_COLUMNS}`;

export async function createListing({ ctx, input }: Call<typeof schema.createInput>): Promise<OperatorListing> {
  const { db } = ctx.services;
  const timezone = await canonicalTimeZone(db, input.timezone);
  return db.sqlTransaction(async (tx) => {
    const { ownerId, ...fields } = input;
    await lockUsers(tx, [ownerId], "ownerId");
    const data = JSON.stringify(toColumns({ ...fields, publicId: nanoid(), timezone }));
    const [row] = await tx.query<OperatorListing>("insert-listing", CREATE, [data]);
    if (!row) throw new Error("the statement wrote no listing");
    await setRoles(tx, [{ listingId: row.id, userId: ownerId, role: "OWNER" }]);
    await audit(tx, ctx, "listing.created", row.id, { ownerId });
    return row;
  });
}

// Populates from the current row, so that fields that are not given keep their values.
const UPDATE = `
  UPDATE listings l
  SET (${SET}) = (SELECT ${SET.map((column) => `p.${column}`)} FROM jsonb_populate_record(l, $2::jsonb) p)
  WHERE l.id = $1::uuid
  RETURNING ${OPERATOR_COLUMNS}`;

export async function updateListing({ ctx, input }: Call<typeof schema.updateInput>): Promise<OperatorListing> {
  const { db } = ctx.services;
  const { id, ...change } = input;
  const timezone = change.timezone === undefined ? undefined : await canonicalTimeZone(db, change.timezone);
  return db.sqlTransaction(async (tx) => {
    const [stored] = await tx.query<OperatorListing>("any-listing", GET_ANY, [id]);
    if (!stored) throw notFound("listing");
    const data = omitUndefined({ ...change, timezone });
    const fields = Object.keys(data);
    if (fields.length === 0) return stored;
    const values = [id, JSON.stringify(toColumns(data))];
    const [row = stored] = await tx.query<OperatorListing>("update-listing", UPDATE, values);
    const details = { fields, ...(data.active !== undefined && { active: data.active }) };
    await audit(tx, ctx, "listing.updated", id, details);
    return row;
  });
}
