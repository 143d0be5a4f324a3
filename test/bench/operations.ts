import type pg from "pg";
import { encodeCursor, type ListIdentity } from "../../server/paging.js";
import { deriveKeyring } from "../../server/secrets.js";
import { runSecret } from "./database.js";
import { emailOf, findHolder, type HolderName } from "./dataset.js";
import { liveOperations } from "./live-operations.js";
import type { Operation } from "./operation.js";
import { type BenchRequest, withSerial } from "./wrk.js";

const cursorKeys = deriveKeyring([runSecret]).cursor;
const PAGE_SIZE = 50;
const DEEP_PAGE = 10_000;
/** Number of different ids that a fetch or create operation uses. */
const TARGETS = 500;
const REPLAYED = 100;

/** Creates all operations, in the order of the results table. */
export async function createOperations(
  client: pg.Client,
  keys: Record<HolderName, string>,
): Promise<Operation[]> {
  const firstPage = (name: HolderName, id: string, title: string): Operation => ({
    id,
    title,
    requests: [{ target: "/v1/forms", key: keys[name] }],
  });
  const deepPage = async (name: HolderName, id: string, wantedPage: number): Promise<Operation> => {
    const { page, cursors } = await cursorsAt(client, name, wantedPage);
    return {
      id,
      title: `list forms, ${formatNumber(findHolder(name).listings)} listings, ${formatNumber(page)} pages in`,
      requests: cursors.map((cursor) => ({ target: `/v1/forms?cursor=${cursor}`, key: keys[name] })),
    };
  };
  const listings = (name: HolderName, id: string): Operation => ({
    id,
    title: `list listings, ${formatNumber(findHolder(name).listings)}`,
    requests: [{ target: "/v1/listings", key: keys[name] }],
  });
  const [thousand, live] = [await idsOf(client, "thousand"), await idsOf(client, "live")];
  const fetches = (ids: string[], path: string): BenchRequest[] =>
    ids.map((id) => ({ target: `${path}/${id}`, key: keys.thousand }));
  const newCreates = creates(thousand.listings, keys.thousand);
  return [
    { id: "fetch-form", title: "fetch form", requests: fetches(thousand.forms, "/v1/forms") },
    firstPage("one", "list-1", "list forms, 1 listing"),
    firstPage("ten", "list-10", "list forms, 10 listings"),
    firstPage("thousand", "list-1000", "list forms, 1,000 listings"),
    firstPage("tenThousand", "list-10000", "list forms, 10,000 listings"),
    firstPage("new", "list-new", "list forms, 500 new listings"),
    await deepPage("thousand", "deep-1000", DEEP_PAGE),
    await deepPage("tenThousand", "deep-10000", DEEP_PAGE),
    listings("ten", "listings-10"),
    listings("tenThousand", "listings-10000"),
    { id: "fetch-listing", title: "fetch listing", requests: fetches(thousand.listings, "/v1/listings") },
    { id: "create", title: "create form", writes: true, requests: newCreates },
    {
      id: "replay",
      title: "replay a create",
      writes: true,
      replays: true,
      requests: newCreates.slice(0, REPLAYED).map(withSerial),
    },
    ...(await liveOperations(client, {
      key: keys.live,
      creates: creates(live.listings, keys.live),
      // Forms of the last hour come and go.
      fetches: fetches(thousand.forms, "/v1/forms"),
    })),
  ];
}

const formatNumber = (value: number) => value.toLocaleString("en");

/** SQL for the ids of a holder's listings. */
const OWN_LISTINGS = `SELECT m.listing_id FROM memberships m JOIN users u ON u.id = m.user_id WHERE u.email = $1`;

async function idsOf(client: pg.Client, name: HolderName) {
  const select = (from: string) =>
    client.query<{ id: string }>(
      `SELECT id FROM ${from} IN (${OWN_LISTINGS}) ORDER BY md5(id::text) LIMIT ${TARGETS}`,
      [emailOf(name)],
    );
  const forms = await select("forms WHERE listing_id");
  const listings = await select("listings WHERE max_people_in_listing IS NULL AND id");
  return { forms: forms.rows.map(({ id }) => id), listings: listings.rows.map(({ id }) => id) };
}

/** Returns the cursors of 20 pages from `wantedPage` on, or of the last pages if the list is shorter. */
async function cursorsAt(client: pg.Client, name: HolderName, wantedPage: number) {
  const pages = 20;
  const { rows: counted } = await client.query<{ forms: number }>(
    `SELECT count(*)::int AS forms FROM forms WHERE listing_id IN (${OWN_LISTINGS})`,
    [emailOf(name)],
  );
  const page = Math.max(
    1,
    Math.min(wantedPage, Math.floor((counted[0]?.forms ?? 0) / PAGE_SIZE) - pages - 1),
  );
  const { rows } = await client.query<{ at: number; id: string }>(
    `SELECT extract(epoch FROM created_at)::float8 * 1000 AS at, id FROM forms WHERE listing_id IN (${OWN_LISTINGS})
     ORDER BY created_at, id OFFSET $2 LIMIT $3`,
    [emailOf(name), page * PAGE_SIZE - 1, pages * PAGE_SIZE],
  );
  const identity: ListIdentity = { list: "forms" };
  const cursors = rows
    .filter((_row, index) => index % PAGE_SIZE === 0)
    .map(({ at, id }) => encodeCursor(cursorKeys, identity, { createdAt: Math.round(at), id }));
  return { page, cursors };
}

/** Creates as the SDK sends them, every second one with a guest email. */
function creates(listingIds: string[], key: string): BenchRequest[] {
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
