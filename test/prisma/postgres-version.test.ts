import { expect, test } from "vitest";
import { examine } from "../../gateway/doctor/examine.js";
import { migrate } from "../../prisma/migrate.js";
import { readSettings } from "../../server/config.js";
import { createTestDatabase } from "../support/database.js";
import { openTestServices } from "../support/factories.js";
import { runSql } from "../support/run-sql.js";

/** Creates a database whose sessions report another version of Postgres, or another engine. Returns its URL. */
async function createDatabaseReporting(
  version: string,
  number: number,
  { engine = `PostgreSQL ${version} on x86_64-pc-linux-gnu`, ...options }: { empty: boolean; engine?: string },
): Promise<string> {
  const { url } = await createTestDatabase(options);
  await runSql(
    url,
    `CREATE SCHEMA other;
     CREATE FUNCTION other.version() RETURNS text LANGUAGE sql AS $$ SELECT '${engine}' $$;
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

test.each([
  [
    "YugabyteDB",
    "PostgreSQL 15.2-YB-2.25.1.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 17.0.6, 64-bit",
    "it lacks snapshots that show the transactions in flight",
  ],
  [
    "CockroachDB",
    "CockroachDB CCL v25.2.1 (x86_64-pc-linux-gnu, built 2025/06/04 17:05:58, go1.23.7)",
    "it lacks statement triggers and advisory locks",
  ],
  ["Greenplum", "PostgreSQL 12.12 (Greenplum Database 7.1.0 build commit:1d6d) on x86_64-pc-linux-gnu", "it lacks "],
])(
  "%s, which only speaks the protocol of Postgres, is rejected by name with the reason",
  async (name, engine, reason) => {
    const url = await createDatabaseReporting("15.2", 150_002, { empty: false, engine });
    const sentence = `${name} is not supported: ${reason}`;
    await expect(migrate(url)).rejects.toThrow(sentence);
    await expect(openTestServices({ DATABASE_URL: url })).rejects.toThrow(sentence);
    const settings = readSettings({ DATABASE_URL: url });
    const [database] = await examine({ settings, env: {}, processes: 1, worker: true });
    expect(database).toMatchObject({ name: "database", status: "failed", message: expect.stringContaining(sentence) });
  },
);

test("a server that calls itself by no name of Postgres is rejected", async () => {
  const url = await createDatabaseReporting("15.2", 150_002, { empty: false, engine: "Imitation 1.0" });
  await expect(migrate(url)).rejects.toThrow(
    "The database is not PostgreSQL but Imitation 1.0. Use PostgreSQL 15 or newer.",
  );
});
