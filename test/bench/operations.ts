import type pg from "pg";
import { deriveKeyring } from "../../server/encryption.js";
import { encodeCursor } from "../../server/resources/paging.js";
import { runSecret } from "./database.js";
import { emailOf, HOLDERS, type HolderName } from "./fill.js";
import { type BenchRequest, withSerial } from "./requests.js";

export interface Operation {
  /** Used by `--only` and in the results. */
  id: string;
  title: string;
  requests: BenchRequest[];
  /** Set for operations on live data: inserts the forms that became due, and returns the requests to send now. */
  refresh?: () => Promise<BenchRequest[]>;
  writes?: true;
  /** Set if the requests are creates that were sent before, so that the load only replays them. */
  replays?: true;
  /** Set for an integrator who polls the end of the list with the newest cursor. */
  followsTail?: true;
  /** Creates that another client sends meanwhile, CREATES_PER_SECOND. */
  besideCreates?: BenchRequest[];
}

const cursorKeys = deriveKeyring([runSecret]).cursor;
const PAGE_SIZE = 50;
const DEEP_PAGE = 10_000;
/** Number of different ids that a fetch or create operation uses. */
const TARGETS = 500;
const REPLAYED = 100;

/** Creates all operations, in the order of the results table. */
export async function createOperations(client: pg.Client, keys: Record<HolderName, string>): Promise<Operation[]> {
  const list = (name: HolderName, id: string, more = ""): Operation => {
    const listings = formatNumber(HOLDERS[name].listings);
    const title = `list forms, ${listings} ${more}listing${listings === "1" ? "" : "s"}`;
    return { id, title, requests: [{ target: "/v1/forms", key: keys[name] }] };
  };
  const deepPage = async (name: HolderName, id: string): Promise<Operation> => {
    const { page, requests } = await deepPages(client, name, keys[name]);
    return { id, title: `${list(name, id).title}, ${formatNumber(page)} pages in`, requests };
  };
  const listings = (name: HolderName, id: string): Operation => ({
    id,
    title: `list listings, ${formatNumber(HOLDERS[name].listings)}`,
    requests: [{ target: "/v1/listings", key: keys[name] }],
  });
  const [thousand, live] = [await idsOf(client, "thousand"), await idsOf(client, "live")];
  const fetches = (ids: string[], path: string): BenchRequest[] =>
    ids.map((id) => ({ target: `${path}/${id}`, key: keys.thousand }));
  const newCreates = creates(thousand.listings, keys.thousand);
  return [
    { id: "fetch-form", title: "fetch form", requests: fetches(thousand.forms, "/v1/forms") },
    list("one", "list-1"),
    list("ten", "list-10"),
    list("thousand", "list-1000"),
    list("tenThousand", "list-10000"),
    list("new", "list-new", "new "),
    await deepPage("thousand", "deep-1000"),
    await deepPage("tenThousand", "deep-10000"),
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

/** Requests for 20 pages from DEEP_PAGE on, or for the last pages if the list is shorter. */
async function deepPages(client: pg.Client, name: HolderName, key: string) {
  const pages = 20;
  const { rows: counted } = await client.query<{ forms: number }>(
    `SELECT count(*)::int AS forms FROM forms WHERE listing_id IN (${OWN_LISTINGS})`,
    [emailOf(name)],
  );
  const page = Math.max(1, Math.min(DEEP_PAGE, Math.floor((counted[0]?.forms ?? 0) / PAGE_SIZE) - pages - 1));
  const { rows } = await client.query<Position>(
    `SELECT extract(epoch FROM created_at)::float8 * 1000 AS at, id FROM forms WHERE listing_id IN (${OWN_LISTINGS})
     ORDER BY created_at, id OFFSET $2 LIMIT $3`,
    [emailOf(name), page * PAGE_SIZE - 1, pages * PAGE_SIZE],
  );
  const last = rows.filter((_row, index) => index % PAGE_SIZE === 0);
  return { page, requests: last.map((form) => pageAfter(form, key)) };
}

/** A form's id and creation time, in milliseconds since 1970. */
interface Position {
  at: number;
  id: string;
}

function pageAfter({ at, id }: Position, key: string): BenchRequest {
  const cursor = encodeCursor(cursorKeys, { list: "forms" }, { createdAt: Math.round(at), id });
  return { target: `/v1/forms?cursor=${cursor}`, key };
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

const FORMS_PER_HOUR = 5_000;
const HOUR_MS = 3_600_000;
const CURSORS = 200;

const { firstListing: FIRST, listings: LISTINGS } = HOLDERS.live;
/** SQL for the ids of the holder's listings. */
const LIVE_LISTINGS = `SELECT md5('listing' || n)::uuid FROM generate_series(${FIRST}, ${FIRST + LISTINGS - 1}) n`;

/** The holder's key, and creates and fetches for it. */
interface LiveRequests {
  key: string;
  creates: BenchRequest[];
  fetches: BenchRequest[];
}

/**
 * Operations on forms of the last hour, up to the last second. Forms have evenly spaced creation times. Those that became
 * due are inserted before each load.
 */
async function liveOperations(client: pg.Client, { key, creates, fetches }: LiveRequests): Promise<Operation[]> {
  await client.query(`DELETE FROM forms WHERE listing_id IN (${LIVE_LISTINGS})`);
  await client.query("VACUUM forms, scoped_forms");
  const pagesAfter = (selection: string) => async (): Promise<BenchRequest[]> => {
    await insertDueForms(client);
    return requestsAfter(client, key, selection);
  };
  const hour = pagesAfter(FORMS_OF("1 hour"));
  const whileCreating = { besideCreates: creates, writes: true } as const;
  const operations: (Omit<Operation, "requests"> & { refresh: () => Promise<BenchRequest[]> })[] = [
    { id: "live-hour", title: "list forms of the last hour", refresh: hour },
    { id: "live-minutes", title: "list forms of the last 5 minutes", refresh: pagesAfter(FORMS_OF("5 minutes")) },
    { id: "live-newest", title: "the newest page", refresh: pagesAfter(FORM_BEFORE_NEWEST_PAGE) },
    { id: "live-beside", title: "list forms of the last hour, beside creates", refresh: hour, ...whileCreating },
    {
      ...{ id: "live-tail", title: "follow the list, beside creates", refresh: pagesAfter(NEWEST_FORM) },
      ...{ ...whileCreating, followsTail: true as const },
    },
    {
      id: "mixed",
      title: "70 % lists of the last hour, 20 % fetches, 10 % creates",
      refresh: async () => mix(await hour(), fetches, creates),
      writes: true,
    },
  ];
  const filled: Operation[] = [];
  for (const operation of operations) filled.push({ ...operation, requests: await operation.refresh() });
  return filled;
}

/** Seven lists, two fetches and a create, as many times as there are lists for. */
const mix = (lists: BenchRequest[], fetches: BenchRequest[], creates: BenchRequest[]): BenchRequest[] =>
  Array.from({ length: Math.floor(lists.length / 7) }, (_, turn) => [
    ...lists.slice(turn * 7, turn * 7 + 7),
    ...[0, 1].map((index) => fetches[(turn * 2 + index) % fetches.length] as BenchRequest),
    creates[turn % creates.length] as BenchRequest,
  ]).flat();

/** Inserts the forms due since the last one, at most those of one hour. */
const insertDueForms = (client: pg.Client) =>
  client.query(
    `WITH last AS (
       SELECT greatest(max(created_at), clock_timestamp() - interval '1 ms' * $1::float8) AS at
       FROM forms WHERE listing_id IN (${LIVE_LISTINGS})
     ), due AS (
       SELECT i, last.at + interval '1 ms' * ($2::float8 * i) AS at
       FROM last, generate_series(1, $3::int) i
     )
     INSERT INTO forms (public_id, listing_id, status, check_in_date, check_out_date, number_of_guests, fingerprint,
       created_at)
     SELECT left(replace(gen_random_uuid()::text, '-', ''), 21), md5('listing' || ${FIRST} + i % ${LISTINGS})::uuid, 'SENT',
       date_trunc('hour', at) + interval '30 days', date_trunc('hour', at) + interval '33 days', 1 + i % 4,
       sha256(gen_random_uuid()::text::bytea), at
     FROM due WHERE at <= clock_timestamp()`,
    [HOUR_MS, HOUR_MS / FORMS_PER_HOUR, FORMS_PER_HOUR],
  );

/** Forms that are followed by more than a full page. */
const FORMS_OF = (age: string) => `
  SELECT * FROM (
    SELECT * FROM live WHERE created_at > clock_timestamp() - interval '${age}' OFFSET ${PAGE_SIZE + 1}
  ) older
  ORDER BY md5(id::text) LIMIT ${CURSORS}`;
const FORM_BEFORE_NEWEST_PAGE = `SELECT * FROM live OFFSET ${PAGE_SIZE + 1} LIMIT 1`;
const NEWEST_FORM = "SELECT * FROM live LIMIT 1";

/** Returns requests for the pages after the forms that `selection` picks from the live forms, newest first. */
async function requestsAfter(client: pg.Client, key: string, selection: string): Promise<BenchRequest[]> {
  const { rows } = await client.query<Position>(
    `WITH live AS (
       SELECT id, created_at FROM forms WHERE listing_id IN (${LIVE_LISTINGS}) ORDER BY created_at DESC, id DESC
     )
     SELECT id, extract(epoch FROM created_at)::float8 * 1000 AS at FROM (${selection}) picked`,
  );
  return rows.map((form) => pageAfter(form, key));
}
