import pg from "pg";
import { expect, test } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { readSettings } from "../../server/config.js";
import { openServices } from "../../server/services.js";
import { createTestDatabase } from "../harness.js";

/** The address of a database in whose sessions PostgreSQL gives another version of itself. */
async function databaseOf(version: string, number: number, options: { empty: boolean }): Promise<string> {
  const { url } = await createTestDatabase(options);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    `CREATE SCHEMA other;
     CREATE FUNCTION other.current_setting(name text) RETURNS text LANGUAGE sql AS
       $$ SELECT CASE name WHEN 'server_version' THEN '${version}' WHEN 'server_version_num' THEN '${number}' END $$`,
  );
  await client.end();
  const address = new URL(url);
  // Before the catalogue, which would come first by itself.
  address.searchParams.set("options", "-c search_path=other,pg_catalog,public");
  return address.href;
}

const open = (DATABASE_URL: string) =>
  openServices(readSettings({ DATABASE_URL, DATABASE_CONNECT_TIMEOUT_MS: "10000" }), { warn: () => {} });

test("a PostgreSQL older than 15 is refused in one sentence, before anything is changed", async () => {
  const sentence = "PostgreSQL 14.2 is too old: guest-forms needs 15 or newer.";
  const empty = await databaseOf("14.2", 140_002, { empty: true });
  await expect(migrate(empty)).rejects.toThrow(
    new RegExp(`^Cannot migrate the database \\w+ at \\S+: ${sentence}$`),
  );
  const migrated = await databaseOf("14.2", 140_002, { empty: false });
  await expect(open(migrated)).rejects.toThrow(new RegExp(`^${sentence}$`));
});

test.each([
  ["15.0", 150_000],
  ["19beta1", 190_000],
])("PostgreSQL %s is used", async (version, number) => {
  const { close } = await open(await databaseOf(version, number, { empty: false }));
  await close();
});
