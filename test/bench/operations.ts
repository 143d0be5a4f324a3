import type pg from "pg";
import { deriveKeyring } from "../../server/encryption.js";
import { generateKey, hashKey, PREFIX_LENGTH } from "../../server/keys/authenticator.js";
import { encodeCursor } from "../../server/resources/paging.js";
import { type BenchRequest, type Load, withSerial } from "./load.js";
import { runSecret } from "./servers.js";

export interface Operation extends Load {
  /** Used by `--only`, in the table and in `recorded.json`. */
  id: string;
}

export const writes = ({ requests }: Operation): boolean => requests.some(({ body }) => body !== undefined);

/** Creates all operations, in the order of the table, with new keys for the holders of 1, 10, 1,000 and 10,000 listings. */
export async function createOperations(client: pg.Client): Promise<Operation[]> {
  await client.query("TRUNCATE api_keys");
  const [one, ten] = [await issueKey(client, 1), await issueKey(client, 2)];
  const [thousand, tenThousand] = [await issueKey(client, 3), await issueKey(client, 4)];
  const list = (key: string, target = "/v1/forms") => [{ target, key }];
  const pages = async (user: number, key: string, selection: string) =>
    (await cursorsOf(client, user, selection)).flatMap((cursor) => list(key, `/v1/forms?cursor=${cursor}`));
  const fetches = (await idsOf(client, "forms WHERE listing_id")).flatMap((id) => list(thousand, `/v1/forms/${id}`));
  const listings = await idsOf(client, "listings WHERE max_people_in_listing IS NULL AND id");
  const creates = listings.map((id, index) => createOn(id, index % 2 === 0, thousand));
  // Followed by more than a full page.
  const recent = await pages(
    3,
    thousand,
    "n BETWEEN total - 5000 AND total - 51 ORDER BY md5(form_id::text) LIMIT 200",
  );
  const deep = await pages(4, tenThousand, "n > 0.9 * total AND n % 50 = 0 LIMIT 20");
  const tail = list(thousand, "/v1/forms?cursor={cursor}");
  const [newest] = await cursorsOf(client, 3, "n = total");
  return [
    { id: "fetch-form", requests: fetches },
    { id: "list-1", requests: list(one) },
    { id: "list-10", requests: list(ten) },
    { id: "list-1000", requests: list(thousand) },
    { id: "list-10000", requests: list(tenThousand) },
    { id: "deep-10000", requests: deep },
    { id: "create", requests: creates },
    { id: "replay", requests: creates.slice(0, 100).map(withSerial) },
    { id: "mixed", requests: mix(creates, mix(fetches, recent, 4), 9) },
    { id: "live-tail", requests: mix(creates, tail, 9), cursor: newest },
  ];
}

/** Returns a filter of operations whose id starts with one of the prefixes, if there are any. */
export const isSelected = (prefixes: readonly string[]) => (operation: Operation) =>
  prefixes.length === 0 || prefixes.some((prefix) => operation.id.startsWith(prefix));

async function issueKey(client: pg.Client, user: number): Promise<string> {
  const key = generateKey("READ_WRITE");
  await client.query(
    "INSERT INTO api_keys (user_id, hash, prefix, mode) VALUES (md5('user' || $1::int)::uuid, $2, $3, 'READ_WRITE')",
    [user, hashKey(key), key.slice(0, PREFIX_LENGTH)],
  );
  return key;
}

/** Up to 500 ids of the holder of 1,000 listings. */
async function idsOf(client: pg.Client, from: string): Promise<string[]> {
  const own = "SELECT listing_id FROM memberships WHERE user_id = md5('user3')::uuid";
  const { rows } = await client.query(`SELECT id FROM ${from} IN (${own}) ORDER BY md5(id::text) LIMIT 500`);
  return rows.map(({ id }) => id);
}

/** Cursors after the forms of a list that `selection` picks by their position. */
async function cursorsOf(client: pg.Client, user: number, selection: string): Promise<string[]> {
  const { rows } = await client.query<{ at: number; id: string }>(
    `WITH list AS (
       SELECT *, row_number() OVER (ORDER BY created_at, form_id) AS n, count(*) OVER () AS total
       FROM scoped_forms WHERE user_id = md5('user' || $1::int)::uuid
     )
     SELECT extract(epoch FROM created_at)::float8 * 1000 AS at, form_id AS id FROM list WHERE ${selection}`,
    [user],
  );
  const keys = deriveKeyring([runSecret]).cursor;
  return rows.map(({ at, id }) => encodeCursor(keys, { list: "forms" }, { createdAt: Math.round(at), id }));
}

/** A create as the SDK sends it. The number of guests makes the body unique. */
const createOn = (listingId: string, hasEmail: boolean, key: string): BenchRequest => ({
  target: "/v1/forms",
  key,
  body:
    `{"listingId":"${listingId}","checkInDate":"2031-07-01T13:00:00.000Z","checkOutDate":"2031-07-08T09:00:00.000Z",` +
    `"numberOfGuests":{serial}${hasEmail ? ',"guestEmail":"guest{serial}@example.com"' : ""}}`,
});

/** Puts `share` of the others, which are repeated, after each request. */
const mix = (requests: BenchRequest[], others: BenchRequest[], share: number): BenchRequest[] =>
  requests.flatMap((request, n) => [
    request,
    ...Array.from({ length: share }, (_, i) => others[(n * share + i) % others.length] as BenchRequest),
  ]);
