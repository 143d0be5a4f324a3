import type pg from "pg";
import { createCaller, openServices, readSettings } from "../../server/caller.js";
import { uniqueStay } from "../support/stays.js";
import type { Database } from "./database.js";
import { runSecret } from "./servers.js";

const OWNERS = 16;
const ENDPOINTS_PER_OWNER = 8;
/** Each has one email, and one delivery to each endpoint of its owner. */
const FORMS_PER_OWNER = 512;
const PLACE = {
  address: "Kanalweg 7",
  city: "Berlin",
  country: "Germany",
  zipCode: "10997",
  timezone: "Europe/Berlin",
};
const LISTING = { title: "Flat by the canal", ...PLACE };

/** What the workers of the benchmark need, too. */
export const WORKER_SETTINGS = { APP_SECRETS: runSecret, WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" };

/** Replaces all data by owners with a listing, endpoints at these ports, and forms, whose messages are kept in other tables. */
export async function fillOutbox({ client, url }: Database, ports: readonly number[]): Promise<void> {
  await client.query("TRUNCATE users, listings, webhook_endpoints, audit_entries, emails, webhook_deliveries CASCADE");
  const settings = readSettings({ ...WORKER_SETTINGS, DATABASE_URL: url });
  const { services, close } = await openServices(settings, { warn: () => {} });
  const operator = createCaller(services, { kind: "operator" });
  for (let n = 0; n < OWNERS; n++) {
    const { id: userId } = await operator.users.create({ email: `owner${n}@example.com` });
    const { id } = await operator.listings.create({ ownerId: userId, ...LISTING });
    for (let i = 0; i < ENDPOINTS_PER_OWNER; i++)
      await operator.webhooks.create({ userId, url: `http://127.0.0.1:${ports[n % ports.length]}/${i}` });
    const { forms } = createCaller(services, { kind: "user", userId });
    for (let i = 0; i < FORMS_PER_OWNER; i++) await forms.create(uniqueStay(id, { guestEmail: "guest@example.com" }));
  }
  await close();
  for (const table of ["emails", "webhook_deliveries"]) {
    await client.query(`DROP TABLE IF EXISTS bench_${table}`);
    await client.query(`CREATE TABLE bench_${table} AS TABLE ${table}`);
  }
  await client.query("VACUUM (ANALYZE)");
}

/** Makes all messages of one table wait, and no others. */
export async function queueMessages(client: pg.Client, table: "emails" | "webhook_deliveries"): Promise<void> {
  await client.query("TRUNCATE emails, webhook_deliveries, worker_activity");
  await client.query(`INSERT INTO ${table} TABLE bench_${table}`);
  await client.query(`VACUUM (ANALYZE) ${table}`);
  await client.query("CHECKPOINT");
}
