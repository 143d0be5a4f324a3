import type pg from "pg";
import { generateKey, hashKey, PREFIX_LENGTH } from "../../server/keys/authenticator.js";
import { FORM, jsonSql, STATUSES } from "./public.js";
import { progress } from "./report.js";

// Holders and listings of the benchmark database. Listings and forms are numbered from 1, forms in order of creation.

const LISTINGS = 20_000;

interface DatasetHolder {
  /** Number of the holder's first listing. The others follow it. */
  firstListing: number;
  listings: number;
}

/**
 * The forms of `new` are all in the last 5% of the forms. The forms of `live` are created in the hour before the run
 * (`operations.ts`).
 */
export const HOLDERS = {
  one: { firstListing: 1, listings: 1 },
  ten: { firstListing: 2, listings: 10 },
  thousand: { firstListing: 12, listings: 1_000 },
  tenThousand: { firstListing: 1_012, listings: 10_000 },
  new: { firstListing: 19_501, listings: 500 },
  live: { firstListing: 19_491, listings: 10 },
} satisfies Record<string, DatasetHolder>;

export type HolderName = keyof typeof HOLDERS;
const NAMES = Object.keys(HOLDERS) as HolderName[];

/** The email of the holder's user. */
export const emailOf = (name: HolderName) => `holder${NAMES.indexOf(name) + 1}@example.com`;

/** Number of other holders, who share the remaining listings. */
const OTHER_HOLDERS = 2_000;

/** The forms were created in the three years from this instant on. */
const FIRST_FORM_AT = "2022-01-01T00:00:00Z";
const SPAN_MS = 3 * 365 * 86_400_000;

/** Names the data, so that databases of earlier runs with other data are filled again. If only the SQL changes, increment. */
const DATA = JSON.stringify([6, FORM, STATUSES]);
const BATCH_SIZE = 50_000;

/** Whether an earlier run filled the database with the same data. */
export async function isFilled(client: pg.Client, forms: number): Promise<boolean> {
  await client.query("CREATE TABLE IF NOT EXISTS bench_data (name text NOT NULL, forms int NOT NULL)");
  const { rowCount } = await client.query("SELECT FROM bench_data WHERE name = $1 AND forms = $2", [DATA, forms]);
  return rowCount === 1;
}

/**
 * Fills the database with reproducible data: every value is derived from the row number. Each form has a creation and
 * an audit entry, every second one an Idempotency-Key and a guest's email. The sealed emails have the right length but
 * cannot be decrypted.
 */
export async function fill(client: pg.Client, forms: number): Promise<void> {
  const began = Date.now();
  progress(`Filling the database with ${forms} forms on ${LISTINGS} listings …`);
  // Skips foreign key checks, which would take longer than everything else.
  await client.query("SET session_replication_role TO replica");
  await client.query("SET synchronous_commit TO off");
  await client.query(
    "TRUNCATE users, listings, forms, scoped_forms, creations, idempotency_keys, audit_entries, bench_data RESTART IDENTITY CASCADE",
  );
  await fillUsersAndListings(client);
  for (let from = 1; from <= forms; from += BATCH_SIZE) {
    const to = Math.min(from + BATCH_SIZE - 1, forms);
    await client.query(FORMS, [from, to, forms, SPAN_MS / forms, FIRST_FORM_AT]);
    progress(`  ${to} forms (${Math.round((Date.now() - began) / 1000)} s)`);
  }
  progress("  scopes and the peers' index …");
  await client.query(SCOPES);
  await client.query("CREATE INDEX IF NOT EXISTS bench_forms_in_order ON forms (created_at, id)");
  await client.query("RESET session_replication_role");
  await client.query("RESET synchronous_commit");
  await client.query("VACUUM (ANALYZE)");
  await client.query("INSERT INTO bench_data VALUES ($1, $2)", [DATA, forms]);
  progress(`Filled in ${Math.round((Date.now() - began) / 1000)} s.`);
}

/** Does what the triggers of the service would do, which are off while the database is filled. */
const SCOPES = `
  INSERT INTO scoped_forms (user_id, created_at, form_id)
  SELECT m.user_id, f.created_at, f.id FROM forms f JOIN memberships m ON m.listing_id = f.listing_id
  WHERE m.role IN ('OWNER', 'WRITER')
  ORDER BY m.user_id, f.created_at, f.id`;

const publicId = (of: string) => `left(translate(encode(sha256((${of})::bytea), 'base64'), '+/=', '-_'), 21)`;

/** The number of a listing's owner: the holders first, then the others. */
const OWNER = `CASE ${Object.values(HOLDERS)
  .map(({ firstListing: first, listings }, n) => `WHEN n BETWEEN ${first} AND ${first + listings - 1} THEN ${n + 1}`)
  .join(" ")} ELSE ${NAMES.length + 1} + n % ${OTHER_HOLDERS} END`;

async function fillUsersAndListings(client: pg.Client): Promise<void> {
  await client.query(
    `INSERT INTO users (id, email, created_at)
     SELECT md5('user' || n)::uuid, 'holder' || n || '@example.com', $1::timestamptz - interval '1 year'
     FROM generate_series(1, ${NAMES.length + OTHER_HOLDERS}) n`,
    [FIRST_FORM_AT],
  );
  // The last 500 listings are as new as their forms.
  await client.query(
    `INSERT INTO listings (id, public_id, title, address, city, country, zip_code, district, timezone,
       max_people_in_listing, max_vehicles, allow_pets, created_at)
     SELECT md5('listing' || n)::uuid, ${publicId("'listing' || n")}, 'Flat ' || n || ' by the canal',
       'Kanalweg ' || n % 200 + 1, 'Berlin', 'Germany', 10000 + n % 4000, CASE WHEN n % 3 = 0 THEN 'Kreuzberg' END,
       'Europe/Berlin', CASE WHEN n % 4 > 0 THEN 4 + n % 6 END, n % 3, n % 2 = 0,
       $1::timestamptz + CASE WHEN n > $2 THEN interval '1 ms' * $3 * 0.94 ELSE interval '0' END + n * interval '1 second'
         - interval '1 day'
     FROM generate_series(1, ${LISTINGS}) n`,
    [FIRST_FORM_AT, LISTINGS - 500, SPAN_MS],
  );
  await client.query(
    `INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
     SELECT md5('user' || ${OWNER})::uuid, l.id, l.created_at, 'OWNER'
     FROM generate_series(1, ${LISTINGS}) n JOIN listings l ON l.id = md5('listing' || n)::uuid`,
  );
}

/** SQL for a pseudorandom number from 0 to below `limit`, derived from i. */
const pseudorandom = (limit: string, salt: number) =>
  `(((i::bigint * 2654435761 + ${salt}) % 4294967296 * 40503 >> 16) % (${limit}))`;

const firstOf = (name: HolderName) => HOLDERS[name].firstListing;
/** The first listing of other holders. */
const OTHERS = firstOf("tenThousand") + HOLDERS.tenThousand.listings;

/**
 * The holder of 10,000 listings has 56% of the forms, the holder of 1,000 has 6%. The holders of 1 and 10 listings have
 * about 200 and 1,000 forms in any database. Half of the last 5% of the forms are on the new listings.
 */
const LISTING_OF_FORM = `CASE
  WHEN i % greatest($3::int / 200, 1) = 7 THEN ${firstOf("one")}
  WHEN i % greatest($3::int / 1000, 1) = 5 THEN ${firstOf("ten")} + ${pseudorandom("10", 1)}
  WHEN i > $3::int * 0.95 AND i % 2 = 0 THEN ${firstOf("new")} + ${pseudorandom("500", 2)}
  WHEN ${pseudorandom("100", 3)} < 56 THEN ${firstOf("tenThousand")} + ${pseudorandom("10000", 4)}
  WHEN ${pseudorandom("100", 3)} < 62 THEN ${firstOf("thousand")} + ${pseudorandom("1000", 5)}
  ELSE ${OTHERS} + ${pseudorandom(`${firstOf("live") - OTHERS}`, 6)}
END`;

/** Each in turn, and one that is not public. */
const STATUS = `(ARRAY['${[...STATUSES, "ON_HOLD"].join("','")}'])[1 + i % ${STATUSES.length + 1}]`;

const iso = (column: string) => `to_char(${column}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const FORMS = `
  WITH numbered AS MATERIALIZED (
    SELECT i, ${LISTING_OF_FORM} AS n, $5::timestamptz + i * $4::float8 * interval '1 ms' AS at
    FROM generate_series($1::int, $2::int) i
  ), form AS (
    INSERT INTO forms (id, public_id, listing_id, status, check_in_date, check_out_date, number_of_guests,
      number_of_vehicles, number_of_pets, guest_email, fingerprint, created_at)
    SELECT md5('form' || i)::uuid, ${publicId("'form' || i")}, md5('listing' || n)::uuid, ${STATUS},
      date_trunc('hour', at) + interval '30 days', date_trunc('hour', at) + interval '33 days', 1 + i % 4,
      CASE WHEN i % 3 = 0 THEN i % 2 END, CASE WHEN i % 5 = 0 THEN 0 END,
      CASE WHEN i % 2 = 0 THEN '\\x01'::bytea || sha256(('email' || i)::bytea) || substr(sha256(i::text::bytea), 1, 16) END,
      sha256(('body' || i)::bytea), at
    FROM numbered
    RETURNING *
  ), creation AS (
    INSERT INTO creations (form_id, holder_id, fingerprint, current_fingerprint, answer, secret_id)
    SELECT f.id, m.user_id, f.fingerprint, f.fingerprint, ${jsonSql(FORM, "f", iso)}
      || '{"status": "SENT", "numberOfVehicles": null, "numberOfPets": null}', 'secret'
    FROM form f JOIN memberships m ON m.listing_id = f.listing_id
    RETURNING form_id, holder_id
  ), key AS (
    INSERT INTO idempotency_keys (holder_id, key, form_id, retention_starts_at)
    SELECT c.holder_id, gen.key, c.form_id, now()
    FROM creation c CROSS JOIN LATERAL (SELECT md5('key' || c.form_id)::uuid::text AS key) gen
    WHERE c.form_id < '80000000-0000-0000-0000-000000000000'
  )
  INSERT INTO audit_entries (at, actor, actor_id, action, subject_id, correlation_id, details)
  SELECT f.created_at, 'key', md5('actor' || f.listing_id)::uuid, 'form.created', f.id, md5('call' || f.id)::uuid,
    jsonb_build_object('listingId', f.listing_id)
  FROM form f`;

const LABEL = "bench";

/** Issues a read-write key for each holder and deletes those of earlier runs. Only this process knows the keys. */
export async function issueKeys(client: pg.Client): Promise<Record<HolderName, string>> {
  await client.query("DELETE FROM api_keys WHERE label = $1", [LABEL]);
  const keys = NAMES.map((name) => [name, generateKey("READ_WRITE")] as const);
  for (const [index, [, key]] of keys.entries()) {
    await client.query(
      `INSERT INTO api_keys (user_id, hash, prefix, mode, label) VALUES (md5($1)::uuid, $2, $3, 'READ_WRITE', $4)`,
      [`user${index + 1}`, hashKey(key), key.slice(0, PREFIX_LENGTH), LABEL],
    );
  }
  return Object.fromEntries(keys) as Record<HolderName, string>;
}
