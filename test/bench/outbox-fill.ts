import { randomUUID } from "node:crypto";
import type pg from "pg";
import { deriveKeyring, seal } from "../../server/encryption.js";
import { newSecret } from "../../server/webhooks/sign.js";
import { runSecret } from "./database.js";
import { progress } from "./report.js";

const OWNERS = 16;
const ENDPOINTS_PER_OWNER = 8;
/** Each has one email, and one delivery to each endpoint of its owner. */
const FORMS = 8_192;

/** Fills an empty database with owners, each with a listing, endpoints and forms. */
export async function fillOutbox(client: pg.Client, ports: readonly number[]): Promise<void> {
  progress(`Filling the database with ${FORMS} forms of ${OWNERS} owners …`);
  const { email, webhook } = deriveKeyring([runSecret]);
  const ids = (count: number) => Array.from({ length: count }, () => randomUUID());
  const [owners, endpoints, forms] = [ids(OWNERS), ids(OWNERS * ENDPOINTS_PER_OWNER), ids(FORMS)];
  await client.query("TRUNCATE users, listings, webhook_endpoints, audit_entries CASCADE");
  await client.query("INSERT INTO users (id, email) SELECT id, id || '@example.com' FROM unnest($1::uuid[]) id", [
    owners,
  ]);
  // A listing has the id of its owner.
  await client.query(
    `INSERT INTO listings (id, public_id, title, address, city, country, zip_code, timezone)
     SELECT id, left(id::text, 21), 'Flat by the canal', 'Kanalweg 7', 'Berlin', 'Germany', '10997', 'Europe/Berlin'
     FROM users`,
  );
  await client.query(
    "INSERT INTO memberships (user_id, listing_id, listing_created_at, role) SELECT id, id, created_at, 'OWNER' FROM listings",
  );
  await client.query(
    `INSERT INTO webhook_endpoints (id, user_id, url, events, listing_ids, secret)
     SELECT id, ($1::uuid[])[1 + n % ${OWNERS}], 'http://127.0.0.1:' || ($2::int[])[1 + n % ${ports.length}] || '/' || n, '{}', '{}', secret
     FROM unnest($3::uuid[], $4::bytea[]) WITH ORDINALITY AS w (id, secret, n)`,
    [owners, ports, endpoints, endpoints.map((id) => seal(webhook, newSecret(), id))],
  );
  await client.query(
    `INSERT INTO forms (id, public_id, listing_id, check_in_date, check_out_date, number_of_guests, guest_email, fingerprint)
     SELECT id, left(id::text, 21), ($1::uuid[])[1 + n % ${OWNERS}], now() + n * interval '1 minute',
       now() + n * interval '1 minute' + interval '3 days', 2, email, sha256(email)
     FROM unnest($2::uuid[], $3::bytea[]) WITH ORDINALITY AS f (id, email, n)`,
    [owners, forms, forms.map((id) => seal(email, `guest-${id}@example.com`, id))],
  );
  await client.query(
    `INSERT INTO audit_entries (at, actor, actor_id, action, subject_id, correlation_id, details)
     SELECT created_at, 'user', listing_id, 'form.created', id, gen_random_uuid(), jsonb_build_object('listingId', listing_id)
     FROM forms`,
  );
  await client.query("VACUUM (ANALYZE)");
}

const QUEUE = {
  webhook_deliveries: `
    INSERT INTO webhook_deliveries (endpoint_id, event_id, event_type, form_id, audit_entry_id, correlation_id)
    SELECT w.id, f.id, 'form.created', f.id, e.id, e.correlation_id
    FROM forms f JOIN audit_entries e ON e.subject_id = f.id JOIN webhook_endpoints w ON w.user_id = f.listing_id
    ORDER BY f.created_at, w.id`,
  emails: `
    INSERT INTO emails (kind, form_id, tenant_id, check_in_date, correlation_id)
    SELECT 'invitation', id, listing_id, check_in_date, gen_random_uuid() FROM forms`,
};

/** Makes a message wait for each form, or for each form and endpoint, and nothing else. */
export async function queueMessages(client: pg.Client, table: keyof typeof QUEUE): Promise<void> {
  await client.query("TRUNCATE emails, webhook_deliveries, worker_activity");
  await client.query(QUEUE[table]);
  await client.query(`VACUUM (ANALYZE) ${table}`);
  await client.query("CHECKPOINT");
}
