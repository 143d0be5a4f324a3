import type { Context, Holder } from "../context.js";
import { notFound } from "../errors.js";
import { inLines, type Json, type JsonRow, linesOf } from "../json.js";
import { keyset, type Page, page } from "../paging.js";
import { membershipInScope } from "../scope.js";
import { isUuid } from "../values.js";
import type { Listing } from "./schema.js";

type HolderContext = Context & { principal: Holder };

export const ONE = `
  SELECT l.json
  FROM memberships m JOIN listings l ON l.id = m.listing_id
  WHERE ${membershipInScope("$1")} AND m.listing_id = $2::uuid`;

/** The listing, if in scope. */
export async function getListing({ services, principal }: HolderContext, id: string) {
  if (!isUuid(id)) throw notFound();
  const [row] = await services.db.query<JsonRow<Listing>>("listing", ONE, [principal.userId, id]);
  if (!row) throw notFound();
  return row.json;
}

// The membership repeats the listing's creation time, so that one index range is the page, whatever the scope.
export const IN_SCOPE = inLines(`
  SELECT l.json
  FROM (
    SELECT m.listing_id, m.listing_created_at
    FROM memberships m
    WHERE ${membershipInScope("$1")} AND (m.listing_created_at, m.listing_id) > ($2::timestamptz, $3::uuid)
    ORDER BY m.listing_created_at, m.listing_id
    LIMIT $4::int
  ) mine
  JOIN listings l ON l.id = mine.listing_id
  ORDER BY mine.listing_created_at, mine.listing_id`);

export function listListings(
  { services, principal }: HolderContext,
  input: { limit: number; cursor?: string | undefined },
): Promise<Json<Page<Listing>>> {
  const { db, keyring } = services;
  return page<Listing>({
    keys: keyring.cursor,
    identity: { list: "listings" },
    limit: input.limit,
    cursor: input.cursor,
    read: async (after, take) =>
      linesOf(await db.query("listings-in-scope", IN_SCOPE, [principal.userId, ...keyset(after), take])),
  });
}
