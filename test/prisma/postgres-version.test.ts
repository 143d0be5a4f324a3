import pg from "pg";
import { expect, test } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { readSettings } from "../../server/config.js";
import { openServices } from "../../server/services.js";
import { createTestDatabase } from "../support/database.js";
import { TEST_SECRET } from "../support/factories.js";

/** Creates a database whose sessions report another version of Postgres. Returns its URL. */
async function createDatabaseReporting(version: string, number: number, options: { empty: boolean }): Promise<string> {
  const { url } = await createTestDatabase(options);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    `CREATE SCHEMA other;
     CREATE FUNCTION other.current_setting(name text) RETURNS text LANGUAGE sql AS
       $$ SELECT CASE name WHEN 'server_version' THEN '${version}' WHEN 'server_version_num' THEN '${number}' END $$`,
  );
  await client.end();
  const urlWithOptions = new URL(url);
  // `other` must come before pg_catalog, which is searched first by default.
  urlWithOptions.searchParams.set("options", "-c search_path=other,pg_catalog,public");
  return urlWithOptions.href;
}

const open = (DATABASE_URL: string) =>
  openServices(readSettings({ DATABASE_URL, APP_SECRETS: TEST_SECRET, DATABASE_CONNECT_TIMEOUT_MS: "10000" }), {
    warn: () => {},
  });

test("Postgres older than 15 is rejected in one sentence", async () => {
  const sentence = "PostgreSQL 14.2 is too old: guest-forms needs 15 or newer.";
  const empty = await createDatabaseReporting("14.2", 140_002, { empty: true });
  await expect(migrate(empty)).rejects.toThrow(new RegExp(`^Cannot migrate the database \\w+ at \\S+: ${sentence}$`));
  const migrated = await createDatabaseReporting("14.2", 140_002, { empty: false });
  await expect(open(migrated)).rejects.toThrow(new RegExp(`^${sentence}$`));
});

test.each([
  ["15.0", 150_000],
  ["19beta1", 190_000],
])("Postgres %s is accepted", async (version, number) => {
  const { close } = await open(await createDatabaseReporting(version, number, { empty: false }));
  await close();
});
