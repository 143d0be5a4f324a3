import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { describe, expect, inject, test } from "vitest";
import { diffSchema } from "../../gateway/build/migration/diff.js";
import { MIGRATE } from "../../prisma/advisory-locks.js";
import { pendingMigrations } from "../../prisma/history.js";
import { migrate, planMigrations } from "../../prisma/migrate.js";
import { migrationNames, readScript, schemaFile } from "../../prisma/migration-files.js";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase } from "../support/database.js";
import { makeLaterVersion } from "../support/later-version.js";
import { holdLock } from "../support/locks.js";
import { freePort } from "../support/network.js";
import { readAllRows } from "../support/personal-data.js";
import { type RunningProcess, runCli, spawnNode } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";

const names = await migrationNames();

test("the migrations produce exactly the schema of schema.prisma", async () => {
  expect(await diffSchema(inject("serverUrl"))).toBe("");
});

test("diffSchema reports a table that no migration creates", async () => {
  const schema = await readFile(schemaFile(), "utf8");
  const sql = await diffSchema(inject("serverUrl"), `${schema}\nmodel Extra {\n  id Int @id\n}\n`);
  expect(sql).toContain('CREATE TABLE "Extra"');
});

test("four processes that migrate concurrently apply each migration once", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const runs = await Promise.all([1, 2, 3, 4].map(() => migrateInProcess(url).done));
  expect(runs.map(({ stderr, code }) => ({ stderr, code }))).toEqual(runs.map(() => ({ stderr: "", code: 0 })));
  const applied = runs.flatMap(({ stdout }) => JSON.parse(stdout.trim().split("\n").at(-1) ?? "").applied);
  expect(applied).toEqual(names);
  expect(await runSql(url, "SELECT count(*)::int AS n FROM _prisma_migrations")).toEqual([{ n: names.length }]);
});

test("only one process migrates at a time", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const other = await block(url, `SELECT pg_advisory_lock(${MIGRATE})`);
  const waiting = migrateInProcess(url);
  await waiting.waitForLine(/^Another process is migrating this database: waiting for it\.$/);
  await sleep(500);
  expect(await pending(url)).toEqual(names);
  await other.client.end();
  expect(await waiting.done).toMatchObject({ code: 0, stderr: "" });
  expect(await pending(url)).toEqual([]);
});

describe("a database with migrations that this version does not know", () => {
  const record = (url: string, name: string, rolledBack = "NULL") =>
    runSql(
      url,
      `INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at, rolled_back_at, applied_steps_count)
       VALUES (gen_random_uuid(), '', '${name}', now(), ${rolledBack}, 1)`,
    );

  test("is up to date if it also has all known migrations", async () => {
    const { url } = await createTestDatabase();
    await record(url, "20990101000000_later");
    expect(await migrate(url)).toEqual({ applied: [] });
    expect(await pending(url)).toEqual([]);
  });

  test("is rejected with the unknown name, and not changed, if it lacks a known migration", async () => {
    const { url } = await createTestDatabase();
    await record(url, "20200101000000_undone", "now()");
    await record(url, "20200101000000_other");
    await runSql(url, `DELETE FROM _prisma_migrations WHERE migration_name = '${names.at(-1)}'`);
    await expect(migrate(url)).rejects.toThrow(
      /^Cannot migrate the database \w+ at \S+: another version of guest-forms has migrated it \([^\n]*20200101000000_other\)$/,
    );
    expect(await pending(url)).toEqual([names.at(-1)]);
  });

  test.each([
    ["migrate", "Cannot migrate"],
    ["migrate --dry-run", "Cannot migrate"],
    ["serve", "Cannot use"],
    ["serve --no-worker", "Cannot use"],
    ["worker", "Cannot use"],
    ["users list", "Cannot use"],
  ])(
    "makes %s exit with 1 and say what to do, and is not changed, if it has a migration that 20261128000000_init replaced",
    async (command, problem) => {
      const { url } = await createTestDatabase();
      await runSql(url, "DROP TABLE emails, webhook_deliveries; DELETE FROM _prisma_migrations");
      await record(url, "20261127174400_unsent_deliveries");
      await runSql(url, "INSERT INTO users (email) VALUES ('host@example.com')");
      const before = await readState(url);
      const { stdout, stderr, code } = await runCli(command.split(" "), { env: { DATABASE_URL: url, PORT: "0" } });
      expect({ stdout, code }).toEqual({ stdout: "", code: 1 });
      const { host, pathname } = new URL(url);
      expect(stderr.trimEnd().split("\n").at(-1)).toBe(
        `error: ${problem} the database ${pathname.slice(1)} at ${host}: another version of guest-forms has migrated it ` +
          "(this one has no migration 20261127174400_unsent_deliveries): run that version, or start with an empty database " +
          "(`guest-forms dev --fresh` empties the one in .data/).",
      );
      expect(await readState(url)).toEqual(before);
    },
  );
});

/** All rows, and the tables and indexes with their files and numbers of columns. */
const readState = async (url: string) => [
  await readAllRows(url),
  await runSql(
    url,
    `SELECT c.relname, c.relfilenode, c.relnatts FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = 'public' ORDER BY 1`,
  ),
];

test("a script is recorded however it ends", async () => {
  const { url } = await createTestDatabase();
  const { folder } = await makeLaterVersion({
    "20990101000000_no_semicolon": "CREATE TABLE one (id int)",
    "20990101000001_comment": "CREATE TABLE two (id int); -- the end",
    "20990101000002_string": "CREATE TABLE three (id text DEFAULT ';--')",
  });
  expect((await migrateInProcess(url, folder).done).code).toBe(0);
  const recorded = "SELECT count(*)::int AS count FROM _prisma_migrations WHERE migration_name LIKE '2099%'";
  expect(await runSql(url, recorded)).toEqual([{ count: 3 }]);
  expect(await runSql(url, "SELECT FROM one, two, three")).toEqual([]);
});

test("`options` in the database URL do not override the migration's settings", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const urlWithOptions = new URL(url);
  urlWithOptions.searchParams.set("options", "-c timezone=Asia/Tokyo -c statement_timeout=1");
  expect(await migrate(urlWithOptions.href)).toEqual({ applied: names });
});

test("a migration whose process was killed is completed by the next process, once", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const blocker = await block(url);
  const killed = migrateInProcess(url);
  await waitUntilBlocked(url);
  await killed.stop("SIGKILL");
  const next = migrateInProcess(url);
  // If Postgres still runs the script of the killed process, the next process waits for it; then both wait for the table.
  await next.waitForLine(/Waiting for a lock/);
  await blocker.rollback();
  expect(await next.done).toMatchObject({ code: 0, stderr: "" });
  expect(await pending(url)).toEqual([]);
});

const INDEX = "20990101000000_users_name_idx";
const CREATE_INDEX =
  '-- Locks: users SHARE UPDATE EXCLUSIVE and reads it\nCREATE INDEX CONCURRENTLY "users_name_idx" ON "users" ("name");';

test("a failed migration is reported by name, and is applied after its cause is fixed", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const blocker = await block(url);
  const failing = migrate(url).then(
    () => "",
    (error: Error) => error.message,
  );
  await waitUntilBlocked(url);
  await blocker.commit();
  expect(await failing).toMatch(new RegExp(`^Cannot migrate the database \\w+ at \\S+: migration ${names[0]} failed`));
  expect(await failing).not.toContain("\n");
  expect(await pending(url)).toEqual(names);
  await runSql(url, "DROP TABLE users");
  expect(await migrate(url)).toEqual({ applied: names });
});

test("a failed migration is reported with Postgres's detail and hint", async () => {
  const { url } = await createTestDatabase();
  const { migrator } = await makeLaterVersion({
    "20990101000000_fails": `DO $$ BEGIN RAISE 'no' USING DETAIL = 'because of\nthis', HINT = 'do that'; END $$;`,
  });
  await expect(migrator.migrate(url)).rejects.toThrow(
    /: migration 20990101000000_fails failed: no DETAIL: because of this HINT: do that$/,
  );
});

test("an unreachable database is reported in one sentence without its password", async () => {
  const port = await freePort();
  const address = `postgres://someone:open%20sesame@127.0.0.1:${port}/forms`;
  await expect(migrate(address)).rejects.toThrow(
    new Error(`Cannot migrate the database forms at 127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port}`),
  );
});

test("an invalid database URL is rejected", async () => {
  await expect(migrate("secret")).rejects.toThrow(/^Cannot migrate: the database address is not a postgres/);
});

test("migrations are recorded as Prisma's tools expect: with the SHA-256 of the file and the times", async () => {
  const { url } = await createTestDatabase({ empty: true });
  await migrate(url);
  const recorded = await runSql(
    url,
    `SELECT migration_name AS name, checksum, applied_steps_count AS steps, rolled_back_at, logs,
       started_at > now() - interval '1 minute' AND finished_at BETWEEN started_at AND now() AS recent
     FROM _prisma_migrations ORDER BY finished_at`,
  );
  const expected = names.map(async (name) => {
    const checksum = createHash("sha256")
      .update(await readScript(name))
      .digest("hex");
    return { name, checksum, steps: 1, rolled_back_at: null, logs: null, recent: true };
  });
  expect(recorded).toEqual(await Promise.all(expected));
});

test("a migration that an earlier version recorded as not finished is applied and its record is closed", async () => {
  const { url } = await createTestDatabase();
  const { migrator } = await makeLaterVersion({ [INDEX]: CREATE_INDEX });
  await migrator.migrate(url);
  await runSql(url, "DROP INDEX users_name_idx");
  await runSql(url, `UPDATE _prisma_migrations SET finished_at = NULL WHERE migration_name = '${INDEX}'`);
  expect(await migrator.migrate(url)).toEqual({ applied: [INDEX] });
  const records = `SELECT finished_at IS NOT NULL AS finished, rolled_back_at IS NOT NULL AS "rolledBack"
    FROM _prisma_migrations WHERE migration_name = '${INDEX}' ORDER BY started_at`;
  expect(await runSql(url, records)).toEqual([
    { finished: false, rolledBack: true },
    { finished: true, rolledBack: false },
  ]);
});

test("a database with tables of another program is rejected, and not changed", async () => {
  const { url } = await createTestDatabase({ empty: true });
  await runSql(url, "CREATE TABLE others (id int)");
  await expect(migrate(url)).rejects.toThrow(
    /^Cannot migrate the database \w+ at \S+: it is not empty: it has the table others\. Use a database of its own$/,
  );
  await expect(planMigrations(url)).rejects.toThrow(/: it is not empty: it has the table others\./);
  const tables = "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'";
  expect(await runSql(url, tables)).toEqual([{ name: "others" }]);
  await runSql(url, "ALTER EXTENSION plpgsql ADD TABLE others");
  expect(await migrate(url), "with tables of an extension").toEqual({ applied: names });
});

function migrateInProcess(url: string, folder = packageRoot()): RunningProcess {
  const script = `
    import { migrate } from ${JSON.stringify(join(folder, "dist/tools/prisma/migrate.js"))};
    console.log(JSON.stringify(await migrate(${JSON.stringify(url)}, { onProgress: console.log })));
  `;
  return spawnNode(["--input-type=module", "--eval", script]);
}

async function pending(url: string): Promise<string[]> {
  const client = new pg.Client(url);
  await client.connect();
  return pendingMigrations(client).finally(() => client.end());
}

/** Holds the locks of a statement, by default one that creates a table of the first migration. */
const block = (url: string, sql = "CREATE TABLE users (id int)") => holdLock({ db: { url } }, sql);

const waitUntilBlocked = (url: string) =>
  expect
    .poll(() =>
      runSql(url, "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"),
    )
    .not.toEqual([]);
