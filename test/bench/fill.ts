import { createHash } from "node:crypto";
import type pg from "pg";
import { KNOWN_STATUSES } from "../../server/forms/status.js";
import { type Database, openDatabase } from "./database.js";
import { progress } from "./report.js";

// The data of the benchmark. Everything is derived from row numbers: the id of listing 7 is md5('listing7'). Users 1 to 4 own 1, 10,
// 1,000 and 10,000 listings; 2,000 others share the rest.

const OWNER = `CASE WHEN n <= 1 THEN 1 WHEN n <= 11 THEN 2 WHEN n <= 1011 THEN 3 WHEN n <= 11011 THEN 4 ELSE 5 + n % 2000 END`;

// The first two owners have 200 and 1,000 forms in any database, the third has 6% and the fourth 56%.
const LISTING_OF_FORM = `CASE
  WHEN i % greatest({forms} / 200, 1) = 7 THEN 1
  WHEN i % greatest({forms} / 1000, 1) = 5 THEN 2 + i % 10
  WHEN i % 50 < 28 THEN 1012 + i * 7919::bigint % 10000
  WHEN i % 50 < 31 THEN 12 + i * 7919::bigint % 1000
  ELSE 11012 + i * 7919::bigint % 8989
END`;

/** All forms and audit entries are older. */
const END_OF_DATA = "2025-01-01";

/** SQL of a UUID of version 7 with this time, and random bits that depend on the text. */
const timeOrdered = (at: string, text: string) =>
  `overlay(overlay(md5(${text}) PLACING '7' FROM 13)
    PLACING lpad(to_hex((1000 * extract(epoch FROM ${at}))::bigint), 12, '0') FROM 1)::uuid`;

const STATUSES = [...KNOWN_STATUSES, "NOT_PUBLIC"];

/** The sealed addresses have the right length but cannot be opened. The index is for peer T, which would sort all forms. */
const STATEMENTS = [
  `INSERT INTO users (id, email, created_at)
    SELECT md5('user' || n)::uuid, 'holder' || n || '@example.com', '2020-01-01' FROM generate_series(1, 2004) n`,
  `INSERT INTO listings (id, public_id, title, address, city, country, zip_code, district, timezone,
      max_people_in_listing, max_vehicles, allow_pets, created_at)
    SELECT md5('listing' || n)::uuid, left(md5('slug' || n), 21), 'Flat ' || n || ' by the canal',
      'Kanalweg ' || n % 200 + 1, 'Berlin', 'Germany', 10000 + n % 4000, CASE WHEN n % 3 = 0 THEN 'Kreuzberg' END,
      'Europe/Berlin', CASE WHEN n % 4 > 0 THEN 4 + n % 6 END, n % 3, n % 2 = 0,
      '2021-01-01'::timestamptz + n * interval '1 second'
    FROM generate_series(1, 20000) n`,
  `INSERT INTO memberships (user_id, listing_id, listing_created_at, role)
    SELECT md5('user' || ${OWNER})::uuid, l.id, l.created_at, 'OWNER'
    FROM generate_series(1, 20000) n JOIN listings l ON l.id = md5('listing' || n)::uuid`,
  `INSERT INTO forms (id, public_id, listing_id, status, check_in_date, check_out_date, number_of_guests,
      number_of_vehicles, number_of_pets, guest_email, fingerprint, created_at)
    SELECT ${timeOrdered("at", "'form' || i")}, left(md5('slug' || i), 21), md5('listing' || ${LISTING_OF_FORM})::uuid,
      (ARRAY['${STATUSES.join("','")}'])[1 + i % ${STATUSES.length}],
      date_trunc('hour', at) + interval '30 days', date_trunc('hour', at) + interval '33 days', 1 + i % 4,
      CASE WHEN i % 3 = 0 THEN i % 2 END, CASE WHEN i % 5 = 0 THEN 0 END,
      CASE WHEN i % 2 = 0 THEN sha256(i::text::bytea) || substr(sha256(i::text::bytea), 1, 17) END,
      sha256(('body' || i)::bytea), at
    FROM generate_series(1, {forms}) i,
      LATERAL (SELECT '${END_OF_DATA}'::timestamptz - (1 - i::float8 / ({forms} + 1)) * interval '1095 days' AS at) times`,
  `INSERT INTO creations (form_id, holder_id, fingerprint, current_fingerprint, answer, secret_id)
    SELECT f.id, m.user_id, f.fingerprint, f.fingerprint, to_jsonb(f) - '{guest_email,fingerprint}'::text[], 'secret'
    FROM forms f JOIN memberships m ON m.listing_id = f.listing_id`,
  `INSERT INTO idempotency_keys (holder_id, key, form_id, retention_starts_at)
    SELECT holder_id, md5('key' || form_id)::uuid::text, form_id, now() FROM creations
    WHERE get_byte(uuid_send(form_id), 15) < 128`,
  `INSERT INTO audit_entries (at, actor, actor_id, action, subject_id, correlation_id, details)
    SELECT created_at, 'key', md5('actor' || listing_id)::uuid, 'form.created', id, ${timeOrdered("created_at", "'call' || id")},
      jsonb_build_object('listingId', listing_id)
    FROM forms ORDER BY created_at`,
  `INSERT INTO scoped_forms (user_id, created_at, form_id)
    SELECT m.user_id, f.created_at, f.id FROM forms f JOIN memberships m ON m.listing_id = f.listing_id
    ORDER BY m.user_id, f.created_at, f.id`,
  "CREATE INDEX IF NOT EXISTS bench_forms_in_order ON forms (created_at, id)",
];

const NAME = createHash("sha256").update(STATEMENTS.join()).digest("hex");

/** Opens the database with this many forms, and fills it unless an earlier run has filled it with the same data. */
export async function openFilled(forms: number): Promise<Database> {
  const database = await openDatabase(String(forms));
  const { client } = database;
  await client.query("CREATE TABLE IF NOT EXISTS bench_data (name text NOT NULL)");
  if ((await client.query("SELECT FROM bench_data WHERE name = $1", [NAME])).rowCount) return database;
  progress(`Filling the database with ${forms} forms …`);
  // Skips triggers and the checks of foreign keys, which would take longer than everything else.
  await client.query("SET session_replication_role TO replica");
  await client.query("TRUNCATE users, listings, scoped_forms, audit_entries, bench_data RESTART IDENTITY CASCADE");
  for (const sql of STATEMENTS) await client.query(sql.replaceAll("{forms}", String(forms)));
  await client.query("RESET session_replication_role");
  await client.query("VACUUM (ANALYZE)");
  await client.query("INSERT INTO bench_data VALUES ($1)", [NAME]);
  return database;
}

/** Deletes what creates have written since the database was filled, so that every turn starts with the same rows. */
export async function undoCreates(client: pg.Client): Promise<void> {
  await client.query(`DELETE FROM forms WHERE created_at >= '${END_OF_DATA}'`);
  await client.query(`DELETE FROM audit_entries WHERE at >= '${END_OF_DATA}'`);
  for (const table of ["forms", "scoped_forms", "creations", "idempotency_keys", "audit_entries", "emails"])
    await client.query(`VACUUM ${table}`);
  await client.query("CHECKPOINT");
}
