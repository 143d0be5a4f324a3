import type pg from "pg";
import { encodeCursor, type ListIdentity } from "../../server/paging.js";
import { deriveKeyring } from "../../server/secrets.js";
import { runSecret } from "./database.js";
import { findHolder } from "./dataset.js";
import type { Operation } from "./operation.js";
import type { BenchRequest } from "./wrk.js";

const FORMS_PER_HOUR = 5_000;
const HOUR_MS = 3_600_000;
const PAGE_SIZE = 50;
const CURSORS = 200;

const { firstListing: FIRST, listings: LISTINGS } = findHolder("live");
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
export async function liveOperations(
  client: pg.Client,
  { key, creates, fetches }: LiveRequests,
): Promise<Operation[]> {
  await client.query(`DELETE FROM forms WHERE listing_id IN (${LIVE_LISTINGS})`);
  await client.query("VACUUM forms, scoped_forms");
  const pagesAfter = (selection: string) => async (): Promise<BenchRequest[]> => {
    await insertDueForms(client);
    return requestsAfter(client, key, selection);
  };
  const operation = async (
    id: string,
    title: string,
    selection: string,
    more: Partial<Operation> = {},
  ): Promise<Operation> => {
    const refresh = pagesAfter(selection);
    return { id, title, requests: await refresh(), refresh, ...more };
  };
  const whileCreating = { besideCreates: creates, writes: true } as const;
  const hour = await operation("live-hour", "list forms of the last hour", FORMS_OF("1 hour"));
  return [
    hour,
    await operation("live-minutes", "list forms of the last 5 minutes", FORMS_OF("5 minutes")),
    await operation("live-newest", "the newest page", FORM_BEFORE_NEWEST_PAGE),
    await operation(
      "live-beside",
      "list forms of the last hour, beside creates",
      FORMS_OF("1 hour"),
      whileCreating,
    ),
    await operation("live-tail", "follow the list, beside creates", NEWEST_FORM, {
      ...whileCreating,
      followsTail: true,
    }),
    {
      ...hour,
      id: "mixed",
      title: "70 % lists of the last hour, 20 % fetches, 10 % creates",
      refresh: async () => mix(await pagesAfter(FORMS_OF("1 hour"))(), fetches, creates),
      writes: true,
    },
  ];
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

const identity: ListIdentity = { list: "forms" };
const cursorKeys = deriveKeyring([runSecret]).cursor;

/** Returns requests for the pages after the forms that `selection` picks from the live forms, newest first. */
async function requestsAfter(client: pg.Client, key: string, selection: string): Promise<BenchRequest[]> {
  const { rows } = await client.query<{ at: number; id: string }>(
    `WITH live AS (
       SELECT id, created_at FROM forms WHERE listing_id IN (${LIVE_LISTINGS}) ORDER BY created_at DESC, id DESC
     )
     SELECT id, extract(epoch FROM created_at)::float8 * 1000 AS at FROM (${selection}) picked`,
  );
  return rows.map(({ at, id }) => {
    const cursor = encodeCursor(cursorKeys, identity, { createdAt: Math.round(at), id });
    return { target: `/v1/forms?cursor=${cursor}`, key };
  });
}
