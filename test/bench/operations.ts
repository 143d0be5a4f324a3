import type pg from "pg";
import { encodeCursor, type ListIdentity } from "../../server/paging.js";
import { deriveKeyring } from "../../server/secrets.js";
import { runSecret } from "./database.js";
import { liveOperations } from "./live-operations.js";
import type { Request } from "./wrk.js";
import type { Operation } from "./operation.js";
import { emailOf, type HolderName, holder } from "./dataset.js";

const cursorKeys = deriveKeyring([runSecret]).cursor;
const LIMIT = 50;
const DEEP = 10_000;
/** How many different targets an operation has, where it has many. */
const TARGETS = 500;

/** All operations, in the order of the results' table. */
export async function operations(client: pg.Client, keys: Record<HolderName, string>): Promise<Operation[]> {
  const first = (name: HolderName, id: string, title: string): Operation => ({
    id,
    title,
    scope: holder(name).listings,
    requests: [{ target: "/v1/forms", key: keys[name] }],
  });
  const deep = async (name: HolderName, id: string, wanted: number): Promise<Operation> => {
    const { page, cursors } = await cursorsAt(client, name, wanted);
    return {
      id,
      title: `list forms, ${number(holder(name).listings)} listings, ${number(page)} pages in`,
      ...(name === "tenThousand" && { page }),
      requests: cursors.map((cursor) => ({ target: `/v1/forms?cursor=${cursor}`, key: keys[name] })),
    };
  };
  const listings = (name: HolderName, id: string): Operation => ({
    id,
    title: `list listings, ${number(holder(name).listings)}`,
    requests: [{ target: "/v1/listings", key: keys[name] }],
  });
  const thousand = await idsOf(client, "thousand");
  const some = (ids: string[], path: string): Request[] =>
    ids.map((id) => ({ target: `${path}/${id}`, key: keys.thousand }));
  return [
    { id: "fetch-form", title: "fetch form", requests: some(thousand.forms, "/v1/forms") },
    first("one", "list-1", "list forms, 1 listing"),
    first("ten", "list-10", "list forms, 10 listings"),
    first("thousand", "list-1000", "list forms, 1,000 listings"),
    { ...first("tenThousand", "list-10000", "list forms, 10,000 listings"), page: 1 },
    first("new", "list-new", "list forms, 500 new listings"),
    await deep("thousand", "deep-1000", DEEP),
    await deep("tenThousand", "deep-10000", DEEP),
    listings("ten", "listings-10"),
    listings("tenThousand", "listings-10000"),
    ...(await liveOperations(client, keys.live)),
    { id: "fetch-listing", title: "fetch listing", requests: some(thousand.listings, "/v1/listings") },
    { id: "create", title: "create form", writes: true, requests: creates(thousand.listings, keys.thousand) },
    await deep("tenThousand", "page-10", 10),
    await deep("tenThousand", "page-100", 100),
    await deep("tenThousand", "page-1000", 1_000),
  ];
}

const number = (value: number) => value.toLocaleString("en");

const MINE = `SELECT m.listing_id FROM memberships m JOIN users u ON u.id = m.user_id WHERE u.email = $1`;

async function idsOf(client: pg.Client, name: HolderName) {
  const select = (from: string) =>
    client.query<{ id: string }>(
      `SELECT id FROM ${from} IN (${MINE}) ORDER BY md5(id::text) LIMIT ${TARGETS}`,
      [emailOf(name)],
    );
  const forms = await select("forms WHERE listing_id");
  const listings = await select("listings WHERE max_people_in_listing IS NULL AND id");
  return { forms: forms.rows.map(({ id }) => id), listings: listings.rows.map(({ id }) => id) };
}

/**
 * Cursors of some pages from the wanted depth on, or from as deep as a small database goes: those that a client would
 * have been given there.
 */
async function cursorsAt(client: pg.Client, name: HolderName, wanted: number) {
  const pages = 20;
  const { rows: counted } = await client.query<{ forms: number }>(
    `SELECT count(*)::int AS forms FROM forms WHERE listing_id IN (${MINE})`,
    [emailOf(name)],
  );
  const page = Math.max(1, Math.min(wanted, Math.floor((counted[0]?.forms ?? 0) / LIMIT) - pages - 1));
  const { rows } = await client.query<{ at: number; id: string }>(
    `SELECT extract(epoch FROM created_at)::float8 * 1000 AS at, id FROM forms WHERE listing_id IN (${MINE})
     ORDER BY created_at, id OFFSET $2 LIMIT $3`,
    [emailOf(name), page * LIMIT - 1, pages * LIMIT],
  );
  const identity: ListIdentity = { list: "forms" };
  const cursors = rows
    .filter((_row, index) => index % LIMIT === 0)
    .map(({ at, id }) => encodeCursor(cursorKeys, identity, { createdAt: Math.round(at), id }));
  return { page, cursors };
}

/** As an integrator's SDK sends them: each with its Idempotency-Key, every second one with the guest's e-mail. */
function creates(listingIds: string[], key: string): Request[] {
  return listingIds.map((listingId, index) => ({
    target: "/v1/forms",
    key,
    body: JSON.stringify({
      listingId,
      checkInDate: "2031-07-01T13:{t}Z",
      checkOutDate: "2031-07-08T09:00:00.000Z",
      numberOfGuests: 2,
      ...(index % 2 === 0 && { guestEmail: "guest{n}@example.com" }),
    }),
  }));
}
