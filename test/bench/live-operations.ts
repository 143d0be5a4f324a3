import type pg from "pg";
import { encodeCursor, type ListIdentity } from "../../server/paging.js";
import { deriveKeyring } from "../../server/secrets.js";
import { runSecret } from "./database.js";
import type { Request } from "./wrk.js";
import type { Operation } from "./operation.js";
import { holder } from "./dataset.js";

const FORMS_PER_HOUR = 5_000;
const HOUR_MS = 3_600_000;
const LIMIT = 50;
const CURSORS = 200;

const { first: FIRST, listings: LISTINGS } = holder("live");
const MINE = `SELECT md5('listing' || n)::uuid FROM generate_series(${FIRST}, ${FIRST + LISTINGS - 1}) n`;

/**
 * Lists of forms created within the last hour, the newest of them within the last second. Forms come at a steady pace,
 * those due are inserted before each load, so that no creates disturb what is measured.
 */
export async function liveOperations(client: pg.Client, key: string): Promise<Operation[]> {
  await client.query(`DELETE FROM forms WHERE listing_id IN (${MINE})`);
  await client.query("VACUUM forms, scoped_forms");
  const operation = async (id: string, title: string, after: string): Promise<Operation> => {
    const renew = async (): Promise<Request[]> => {
      await catchUp(client);
      return requestsAfter(client, key, after);
    };
    return { id, title, requests: await renew(), renew };
  };
  return [
    await operation("live-pages", "list forms of the last hour, 10 listings", WITHIN_THE_HOUR),
    await operation("live-newest", "list forms, 10 listings, the newest page", BEFORE_THE_NEWEST_PAGE),
  ];
}

/** Inserts the forms that have come since the last one, those of a whole hour at most. */
const catchUp = (client: pg.Client) =>
  client.query(
    `WITH last AS (
       SELECT greatest(max(created_at), clock_timestamp() - interval '1 ms' * $1::float8) AS at
       FROM forms WHERE listing_id IN (${MINE})
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

/** Forms after which a whole page follows, and at least one form more. */
const WITHIN_THE_HOUR = `
  SELECT * FROM (SELECT * FROM mine WHERE created_at > clock_timestamp() - interval '1 hour' OFFSET ${LIMIT + 1}) older
  ORDER BY md5(id::text) LIMIT ${CURSORS}`;
const BEFORE_THE_NEWEST_PAGE = `SELECT * FROM mine OFFSET ${LIMIT + 1} LIMIT 1`;

const identity: ListIdentity = { list: "forms" };
const cursorKeys = deriveKeyring([runSecret]).cursor;

/** Requests for the pages behind the forms that `selection` picks from the live ones, the newest first. */
async function requestsAfter(client: pg.Client, key: string, selection: string): Promise<Request[]> {
  const { rows } = await client.query<{ at: number; id: string }>(
    `WITH mine AS (
       SELECT id, created_at FROM forms WHERE listing_id IN (${MINE}) ORDER BY created_at DESC, id DESC
     )
     SELECT id, extract(epoch FROM created_at)::float8 * 1000 AS at FROM (${selection}) picked`,
  );
  return rows.map(({ at, id }) => {
    const cursor = encodeCursor(cursorKeys, identity, { createdAt: Math.round(at), id });
    return { target: `/v1/forms?cursor=${cursor}`, key };
  });
}
