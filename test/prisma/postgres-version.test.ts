import { expect, test } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { createTestDatabase } from "../support/database.js";
import { openTestServices } from "../support/factories.js";
import { runSql } from "../support/run-sql.js";

/** Creates a database whose sessions report another version of Postgres. Returns its URL. */
async function createDatabaseReporting(version: string, number: number, options: { empty: boolean }): Promise<string> {
  const { url } = await createTestDatabase(options);
  await runSql(
    url,
    `CREATE SCHEMA other;
     CREATE FUNCTION other.current_setting(name text) RETURNS text LANGUAGE sql AS
       $$ SELECT CASE name WHEN 'server_version' THEN '${version}' WHEN 'server_version_num' THEN '${number}' END $$`,
  );
  const urlWithOptions = new URL(url);
  // `other` must come before pg_catalog, which is searched first by default.
  urlWithOptions.searchParams.set("options", "-c search_path=other,pg_catalog,public");
  return urlWithOptions.href;
}

test("Postgres older than 15 is rejected in one sentence", async () => {
  const sentence = "PostgreSQL 14.2 is too old: guest-forms needs 15 or newer.";
  const empty = await createDatabaseReporting("14.2", 140_002, { empty: true });
  await expect(migrate(empty)).rejects.toThrow(new RegExp(`^Cannot migrate the database \\w+ at \\S+: ${sentence}$`));
  const migrated = await createDatabaseReporting("14.2", 140_002, { empty: false });
  await expect(openTestServices({ DATABASE_URL: migrated })).rejects.toThrow(new RegExp(`^${sentence}$`));
});

test.each([
  ["15.0", 150_000],
  ["19beta1", 190_000],
])("Postgres %s is accepted", async (version, number) => {
  await openTestServices({ DATABASE_URL: await createDatabaseReporting(version, number, { empty: false }) });
});
