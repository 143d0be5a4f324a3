import { nanoid } from "nanoid";
import type { z } from "zod";
import type { Prisma } from "../../prisma/client/client.js";
import type { Context, ScopedContext } from "../access/context.js";
import { membershipInScope } from "../access/scope.js";
import { audit } from "../audit.js";
import { notFound } from "../errors.js";
import { type Page, readPage } from "../resources/paging.js";
import { type SqlRow, selectList, selectOf } from "../resources/resource.js";
import { assertUserExists } from "../users/store.js";
import { instantText, omitUndefined } from "../values.js";
import type * as schema from "./schema.js";
import { type Listing, listing } from "./schema.js";

/** Select list of the public listing over `listings l`. */
const COLUMNS = selectList(listing, "l");

/** The same for Prisma's client. */
const SELECT = selectOf(listing);

type PrismaRow = Prisma.ListingGetPayload<{ select: typeof SELECT }>;
type ListingRow = SqlRow<PrismaRow>;

const projectListing = (row: ListingRow | PrismaRow): Listing => ({ ...row, createdAt: instantText(row.createdAt) });

const GET = `
  SELECT ${COLUMNS}
  FROM memberships m JOIN listings l ON l.id = m.listing_id
  WHERE ${membershipInScope("$1")} AND m.listing_id = $2::uuid`;

export async function getListing({ services, principal }: ScopedContext, id: string): Promise<Listing> {
  const [row] = await services.db.query<ListingRow>("listing", GET, [principal.userId, id]);
  if (!row) throw notFound("listing");
  return projectListing(row);
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
  ORDER BY page.listing_created_at, page.listing_id`;

export const listListings = (
  { services: { db, keyring }, principal }: ScopedContext,
  input: z.output<typeof schema.listInput>,
): Promise<Page<Listing>> =>
  readPage<ListingRow, Listing>(input, {
    keys: keyring.cursor,
    identity: { list: "listings" },
    order: "oldest first",
    read: (page) => db.query<ListingRow>("listings", LIST, [principal.userId, ...page]),
    project: projectListing,
  });

const GET_ANY = `SELECT ${COLUMNS} FROM listings l WHERE l.id = $1::uuid`;

export async function getAnyListing({ services }: Context, id: string): Promise<Listing> {
  const [row] = await services.db.query<ListingRow>("any-listing", GET_ANY, [id]);
  if (!row) throw notFound("listing");
  return projectListing(row);
}

const NEWEST = `
  SELECT ${COLUMNS}
  FROM listings l
  WHERE (l.created_at, l.id) < ($1::timestamptz, $2::uuid)
  ORDER BY l.created_at DESC, l.id DESC
  LIMIT $3::int`;

const NEWEST_OF_USER = `
  SELECT ${COLUMNS}
  FROM memberships m JOIN listings l ON l.id = m.listing_id
  WHERE ${membershipInScope("$4")} AND (m.listing_created_at, m.listing_id) < ($1::timestamptz, $2::uuid)
  ORDER BY m.listing_created_at DESC, m.listing_id DESC
  LIMIT $3::int`;

export const listAllListings = (
  { services: { db, keyring } }: Context,
  { userId, ...input }: z.output<typeof schema.listAllInput>,
): Promise<Page<Listing>> =>
  readPage<ListingRow, Listing>(input, {
    keys: keyring.cursor,
    identity: { list: "all listings", userId },
    order: "newest first",
    read: (page) =>
      userId === undefined
        ? db.query<ListingRow>("newest-listings", NEWEST, page)
        : db.query<ListingRow>("newest-listings-of-user", NEWEST_OF_USER, [...page, userId]),
    project: projectListing,
  });

export function createListing(
  context: Context,
  { ownerId, ...fields }: z.output<typeof schema.createInput>,
): Promise<Listing> {
  return context.services.db.transaction(async (tx) => {
    await assertUserExists(tx, ownerId, "ownerId");
    const row = await tx.listing.create({ data: { publicId: nanoid(), ...omitUndefined(fields) }, select: SELECT });
    await tx.membership.create({
      data: { userId: ownerId, listingId: row.id, listingCreatedAt: row.createdAt, role: "OWNER" },
    });
    await audit(tx, context, "listing.created", row.id, { ownerId });
    return projectListing(row);
  });
}

export function updateListing(
  context: Context,
  { id, ...change }: z.output<typeof schema.updateInput>,
): Promise<Listing> {
  const data = omitUndefined(change);
  return context.services.db.transaction(async (tx) => {
    const [row] = await tx.listing.updateManyAndReturn({ where: { id }, data, select: SELECT });
    if (!row) throw notFound("listing");
    const fields = Object.keys(data);
    const details = { fields, ...(data.active !== undefined && { active: data.active }) };
    if (fields.length > 0) await audit(tx, context, "listing.updated", row.id, details);
    return projectListing(row);
  });
}
