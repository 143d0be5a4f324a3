import { expect } from "vitest";
import type { Services } from "../../server/access/context.js";
import { asUser, makeUser } from "./factories.js";

/** Start of the generated creation times, in milliseconds since 1970. */
const BASE_TIME_MS = Date.UTC(2026, 0, 1);

export interface BulkData {
  listings: number;
  formsPerListing: number;
  /** Number of distinct creation times of the forms, 1 ms apart. Few of them give many ties. */
  distinctTimes: number;
  /** Offset of the first creation time from BASE_TIME_MS. */
  startMs?: number;
  role?: "OWNER" | "WRITER" | "READER";
}

/** Inserts listings of a user, with forms. Uses SQL, because creating thousands of forms by call takes minutes. */
export async function insertListingsWithForms(
  services: Services,
  userId: string,
  { listings, formsPerListing, distinctTimes, startMs = 0, role = "WRITER" }: BulkData,
): Promise<void> {
  await services.db.pool.query(
    `WITH new_listings AS (
       INSERT INTO listings (public_id, title, address, city, country, zip_code, timezone, created_at)
       SELECT gen_random_uuid(), 'Listing ' || i, 'a', 'c', 'c', 'z', 'UTC',
         to_timestamp($6::float8 / 1000) + (i * 7919 % 5) * interval '1 ms'
       FROM generate_series(1, $2::int) i
       RETURNING id, created_at
     ), new_members AS (
       INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
       SELECT $1::uuid, id, created_at, $3::"MembershipRole" FROM new_listings
     )
     INSERT INTO forms (public_id, listing_id, fingerprint, created_at)
     SELECT gen_random_uuid(), id, '\\x00',
       to_timestamp($6::float8 / 1000) + (hashtext(id::text || i) & 1048575) % $5::int * interval '1 ms'
     FROM new_listings CROSS JOIN generate_series(1, $4::int) i`,
    [userId, listings, role, formsPerListing, distinctTimes, BASE_TIME_MS + startMs],
  );
}

/** Creates a user with such listings and forms. Returns the user's id. */
export async function makeUserWithForms(services: Services, data: BulkData): Promise<string> {
  const { id } = await makeUser(services);
  await insertListingsWithForms(services, id, data);
  return id;
}

const SCOPE = "SELECT FROM memberships m WHERE m.user_id = $1 AND m.role IN ('OWNER', 'WRITER')";

/** Returns the ids of the forms in a user's scope in list order, by a query simple enough to be trusted. */
export async function formIdsInScope(services: Services, userId: string, listingId?: string): Promise<string[]> {
  const { rows } = await services.db.pool.query<{ id: string }>(
    `SELECT f.id FROM forms f
     WHERE EXISTS (${SCOPE} AND m.listing_id = f.listing_id) AND ($2::uuid IS NULL OR f.listing_id = $2)
     ORDER BY f.created_at, f.id`,
    [userId, listingId ?? null],
  );
  return rows.map(({ id }) => id);
}

export async function listingIdsInScope(services: Services, userId: string): Promise<string[]> {
  const { rows } = await services.db.pool.query<{ id: string }>(
    `SELECT l.id FROM listings l WHERE EXISTS (${SCOPE} AND m.listing_id = l.id) ORDER BY l.created_at, l.id`,
    [userId],
  );
  return rows.map(({ id }) => id);
}

interface IdPage {
  items: { id: string }[];
  nextCursor: string | null;
}

/** Reads all pages of a list and returns the ids. Fails if a page other than the last is not full. */
export async function readAllPages(
  limit: number,
  read: (input: { limit: number; cursor?: string }) => Promise<IdPage>,
): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const page: IdPage = await read(cursor === null ? { limit } : { limit, cursor });
    if (page.nextCursor !== null) expect(page.items).toHaveLength(limit);
    expect(page.items.length).toBeLessThanOrEqual(limit);
    ids.push(...page.items.map(({ id }) => id));
    cursor = page.nextCursor;
  } while (cursor !== null);
  return ids;
}

/** Fails unless paging with each limit returns every form in scope exactly once and in order. */
export async function expectPagingReturnsEveryForm(
  services: Services,
  userId: string,
  limits: number[],
): Promise<void> {
  const { forms } = asUser(services, userId);
  const expected = await formIdsInScope(services, userId);
  for (const limit of limits) {
    expect(await readAllPages(limit, (input) => forms.list(input))).toEqual(expected);
  }
}

/** A list as the core has it, without its filters. */
export type ReadPage<Filter = object, Item = unknown> = (
  input: Filter & { limit?: number; cursor?: string },
) => Promise<{ items: Item[]; nextCursor: string | null }>;

/** Fails unless the list with each filter has these items, in pages of every size. */
export async function expectItems<Filter extends object>(
  read: ReadPage<Filter>,
  expected: [filter: Filter, items: unknown[]][],
): Promise<void> {
  for (const [filter, wanted] of expected) {
    for (const limit of [1, 2, 4, 100]) {
      const items: unknown[] = [];
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page = await read({ ...filter, limit, ...(cursor && { cursor }) });
        expect(page.items.length).toBeLessThanOrEqual(limit);
        items.push(...page.items);
        cursor = page.nextCursor;
      }
      expect(items, JSON.stringify([filter, limit])).toEqual(wanted);
    }
  }
}
