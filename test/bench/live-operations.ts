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

/**
 * Operations that list forms of the last hour, up to the last second. Forms have evenly spaced creation times. Those
 * that became due are inserted before each load, so that no creates run during a measurement.
 */
export async function liveOperations(client: pg.Client, key: string): Promise<Operation[]> {
  await client.query(`DELETE FROM forms WHERE listing_id IN (${LIVE_LISTINGS})`);
  await client.query("VACUUM forms, scoped_forms");
  const operation = async (id: string, title: string, after: string): Promise<Operation> => {
    const refresh = async (): Promise<BenchRequest[]> => {
      await insertDueForms(client);
      return requestsAfter(client, key, after);
    };
    return { id, title, requests: await refresh(), refresh };
  };
  return [
    await operation("live-pages", "list forms of the last hour, 10 listings", FORMS_OF_LAST_HOUR),
    await operation("live-newest", "list forms, 10 listings, the newest page", FORM_BEFORE_NEWEST_PAGE),
  ];
}

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
const FORMS_OF_LAST_HOUR = `
  SELECT * FROM (SELECT * FROM live WHERE created_at > clock_timestamp() - interval '1 hour' OFFSET ${PAGE_SIZE + 1}) older
  ORDER BY md5(id::text) LIMIT ${CURSORS}`;
const FORM_BEFORE_NEWEST_PAGE = `SELECT * FROM live OFFSET ${PAGE_SIZE + 1} LIMIT 1`;

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
