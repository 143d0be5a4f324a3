import type { Context, ScopedContext } from "../context.js";
import { notFound } from "../errors.js";
import { descendingKeysetValues, keysetValues, type Page, readPage } from "../paging.js";
import { membershipInScope } from "../scope.js";
import { LISTING_COLUMNS, type ListingRow, projectListing } from "./projection.js";
import type { Listing } from "./schema.js";

const GET = `
  SELECT ${LISTING_COLUMNS}
  FROM memberships m JOIN listings l ON l.id = m.listing_id
  WHERE ${membershipInScope("$1")} AND m.listing_id = $2::uuid`;

/** The listing; RESOURCE_NOT_FOUND if it is out of scope. */
export async function getListing({ services, principal }: ScopedContext, id: string): Promise<Listing> {
  const [row] = await services.db.query<ListingRow>("listing", GET, [principal.userId, id]);
  if (!row) throw notFound("listing");
  return projectListing(row);
}

// A membership has its listing's creation time, so a page is one index range at any size of scope.
const LIST = `
  SELECT ${LISTING_COLUMNS}
  FROM (
    SELECT m.listing_id, m.listing_created_at
    FROM memberships m
    WHERE ${membershipInScope("$1")} AND (m.listing_created_at, m.listing_id) > ($2::timestamptz, $3::uuid)
    ORDER BY m.listing_created_at, m.listing_id
    LIMIT $4::int
  ) page
  JOIN listings l ON l.id = page.listing_id
  ORDER BY page.listing_created_at, page.listing_id`;

/** A page of the listings in scope. A listing that enters the scope may sort before cursors already returned. */
export async function listListings(
  { services, principal }: ScopedContext,
  input: { limit: number; cursor?: string | undefined },
): Promise<Page<Listing>> {
  const { db, keyring } = services;
  const { items, nextCursor } = await readPage({
    ...input,
    keys: keyring.cursor,
    identity: { list: "listings" },
    read: (after, take) =>
      db.query<ListingRow>("listings", LIST, [principal.userId, ...keysetValues(after, take)]),
  });
  return { items: items.map(projectListing), nextCursor };
}

const GET_ANY = `SELECT ${LISTING_COLUMNS} FROM listings l WHERE l.id = $1::uuid`;

/** For the operator: any listing. */
export async function getAnyListing({ services }: Context, id: string): Promise<Listing> {
  const [row] = await services.db.query<ListingRow>("any-listing", GET_ANY, [id]);
  if (!row) throw notFound("listing");
  return projectListing(row);
}

const NEWEST = `
  SELECT ${LISTING_COLUMNS}
  FROM listings l
  WHERE (l.created_at, l.id) < ($1::timestamptz, $2::uuid)
  ORDER BY l.created_at DESC, l.id DESC
  LIMIT $3::int`;

const NEWEST_OF_USER = `
  SELECT ${LISTING_COLUMNS}
  FROM memberships m JOIN listings l ON l.id = m.listing_id
  WHERE ${membershipInScope("$4")} AND (m.listing_created_at, m.listing_id) < ($1::timestamptz, $2::uuid)
  ORDER BY m.listing_created_at DESC, m.listing_id DESC
  LIMIT $3::int`;

/** For the operator: a page of all listings, or of those in one user's scope, newest first. */
export async function listAllListings(
  { services: { db, keyring } }: Context,
  { limit, cursor, userId }: { limit: number; cursor?: string | undefined; userId?: string | undefined },
): Promise<Page<Listing>> {
  const { items, nextCursor } = await readPage({
    limit,
    cursor,
    keys: keyring.cursor,
    identity: { list: "all listings", userId },
    read: (after, take) =>
      userId === undefined
        ? db.query<ListingRow>("newest-listings", NEWEST, descendingKeysetValues(after, take))
        : db.query<ListingRow>("newest-listings-of-user", NEWEST_OF_USER, [
            ...descendingKeysetValues(after, take),
            userId,
          ]),
  });
  return { items: items.map(projectListing), nextCursor };
}
