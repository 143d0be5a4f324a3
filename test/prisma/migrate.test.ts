import { cp, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { describe, expect, inject, test } from "vitest";
import { diffSchema, nextTimestamp } from "../../prisma/diff.js";
import { migrate, pendingMigrations } from "../../prisma/migrate.js";
import { migrationNames, schemaFile } from "../../prisma/migration-files.js";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase } from "../support/database.js";
import { freePort } from "../support/network.js";
import { type RunningProcess, spawnNode } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";

const names = await migrationNames();

test("the migrations produce exactly the schema of schema.prisma", async () => {
  expect(await diffSchema(inject("serverUrl"))).toBe("");
});

test("diffSchema reports a table that no migration creates", async () => {
  const schema = await readFile(schemaFile(), "utf8");
  const sql = await diffSchema(inject("serverUrl"), `${schema}\nmodel Extra {\n  id Int @id\n}\n`);
  expect(sql).toContain('CREATE TABLE "Extra"');
});

test("a new migration sorts after all others, even if the clock is behind the newest", () => {
  const now = new Date("2027-01-02T03:04:05.678Z");
  expect(nextTimestamp(now, "20261123000200_worker_activity")).toBe("20270102030405");
  expect(nextTimestamp(now, "20270102040000_later")).toBe("20270102040001");
  expect(nextTimestamp(now)).toBe("20270102030405");
});

test("four processes that migrate concurrently apply each migration once", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const runs = await Promise.all([1, 2, 3, 4].map(() => migrateInProcess(url).done));
  expect(runs.map(({ stderr, code }) => ({ stderr, code }))).toEqual(
    runs.map(() => ({ stderr: "", code: 0 })),
  );
  const applied = runs.flatMap(({ stdout }) => JSON.parse(stdout.trim().split("\n").at(-1) ?? "").applied);
  expect(applied).toEqual(names);
  expect(await rows(url, "SELECT count(*)::int AS n FROM stored_secrets WHERE length(secret) >= 43")).toEqual(
    [{ n: 1 }],
  );
  expect(await rows(url, "SELECT count(*)::int AS n FROM _prisma_migrations")).toEqual([{ n: names.length }]);
});

test("migrating an up-to-date database changes nothing", async () => {
  const { url } = await createTestDatabase();
  const secret = await rows(url, "SELECT * FROM stored_secrets");
  expect(await migrate(url, { storeSecret: true })).toEqual({ applied: [] });
  expect(await rows(url, "SELECT * FROM stored_secrets")).toEqual(secret);
});

describe("a database with migrations that this version does not know", () => {
  const record = (url: string, name: string, rolledBack = "NULL") =>
    rows(
      url,
      `INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at, rolled_back_at, applied_steps_count)
       VALUES ('${name}', '', '${name}', now(), ${rolledBack}, 1)`,
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
    await rows(url, `DELETE FROM _prisma_migrations WHERE migration_name = '${names.at(-1)}'`);
    await expect(migrate(url)).rejects.toThrow(
      /^Cannot migrate the database \w+ at \S+: another version of guest-forms has migrated it \([^\n]*20200101000000_other\)$/,
    );
    expect(await pending(url)).toEqual([names.at(-1)]);
  });
});

test("if the script of any pending migration is invalid, migrate reports it before it changes anything", async () => {
  const { url } = await createTestDatabase();
  const invalid = "20990101000001_invalid";
  const folder = await copyVersion({
    "20990101000000_valid": "CREATE TABLE added (id int);",
    [invalid]: "CREATE TABLE other (id int); COMMIT; CREATE TABLE another (id int);",
  });
  const { code, stderr } = await migrateInProcess(url, folder).done;
  expect(code).toBe(1);
  expect(stderr).toMatch(
    new RegExp(`Cannot migrate the database \\w+ at \\S+: migration ${invalid} is invalid:`),
  );
  expect(await rows(url, "SELECT to_regclass('added') AS added")).toEqual([{ added: null }]);
  const recorded = await rows(url, "SELECT migration_name AS name FROM _prisma_migrations ORDER BY name");
  expect(recorded).toEqual(names.map((name) => ({ name })));
});

test("`options` in the database URL do not override the migration's settings", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const urlWithOptions = new URL(url);
  urlWithOptions.searchParams.set("options", "-c timezone=Asia/Tokyo -c statement_timeout=1");
  expect(await migrate(urlWithOptions.href)).toEqual({ applied: names });
});

test("no secret is stored without storeSecret", async () => {
  const { url } = await createTestDatabase({ empty: true });
  await migrate(url);
  expect(await rows(url, "SELECT * FROM stored_secrets")).toEqual([]);
});

test("a migration whose process was killed is completed by the next process, once", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const blocker = await blockUsersTable(url);
  const killed = migrateInProcess(url);
  await waitUntilBlocked(url);
  await killed.stop("SIGKILL");
  const next = migrateInProcess(url);
  // If Postgres still runs the script of the killed process, the next process waits for it; then both wait for the table.
  await next.waitForLine(/Waiting for a lock/);
  await blocker.query("ROLLBACK");
  await blocker.end();
  expect(await next.done).toMatchObject({ code: 0, stderr: "" });
  expect(await pending(url)).toEqual([]);
});

test("an index whose migration was killed while it was built is completed by the next process", async () => {
  const { url } = await createTestDatabase();
  const name = "20261123000320_users_external_id_key";
  await rows(
    url,
    `DROP INDEX users_external_id_key; DELETE FROM _prisma_migrations WHERE migration_name = '${name}'`,
  );
  const blocker = await connect(url);
  await blocker.query("BEGIN; LOCK TABLE users IN ROW EXCLUSIVE MODE");
  const killed = migrateInProcess(url);
  await waitUntilBlocked(url);
  await killed.stop("SIGKILL");
  // As an operator would do whose migration seems to hang.
  await rows(
    url,
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'guest-forms migrate' AND datname = current_database()",
  );
  await blocker.query("COMMIT");
  await blocker.end();
  const isValid =
    "SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = to_regclass('users_external_id_key')";
  expect(await rows(url, isValid)).toEqual([{ valid: false }]);
  expect(await migrate(url)).toEqual({ applied: [name] });
  expect(await rows(url, isValid)).toEqual([{ valid: true }]);
});

test("a failed migration is reported by name, and is applied after its cause is fixed", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const blocker = await blockUsersTable(url);
  const failing = migrate(url).then(
    () => "",
    (error: Error) => error.message,
  );
  await waitUntilBlocked(url);
  await blocker.query("COMMIT");
  expect(await failing).toMatch(
    new RegExp(`^Cannot migrate the database \\w+ at \\S+: migration ${names[0]} failed`),
  );
  expect(await failing).not.toContain("\n");
  expect(await pending(url)).toEqual(names);
  await blocker.query("DROP TABLE users");
  await blocker.end();
  expect(await migrate(url)).toEqual({ applied: names });
});

test("if addresses of users differ only in case, the migration fails with their ids and succeeds after one is changed", async () => {
  const { url } = await createTestDatabase();
  const LATEST = "20261122081200_user_email_ignores_case";
  const run = (sql: string) => rows(url, sql);
  await run(
    `DROP INDEX users_email_lower_key; DELETE FROM _prisma_migrations WHERE migration_name = '${LATEST}'`,
  );
  const [a, b] = [1, 2].map((n) => `00000000-0000-4000-8000-00000000000${n}`);
  await run(
    `INSERT INTO users (id, email) VALUES ('${a}', 'host@example.com'), ('${b}', 'HOST@example.com')`,
  );
  const failed = await migrate(url).then(
    () => "",
    ({ message }: Error) => message,
  );
  expect(failed).toMatch(
    new RegExp(
      `^Cannot migrate the database \\w+ at \\S+: migration ${LATEST} failed: [^\\n]* users have the same e-mail address`,
    ),
  );
  expect(failed).toContain(`${a} and ${b}. Give all but one of them another address`);
  expect(failed).not.toMatch(/host@/i);
  await run(`UPDATE users SET email = 'other@example.com' WHERE id = '${b}'`);
  expect(await migrate(url)).toEqual({ applied: [LATEST] });
});

test("an unreachable database is reported in one sentence without its password", async () => {
  const port = await freePort();
  const address = `postgres://someone:open%20sesame@127.0.0.1:${port}/forms`;
  await expect(migrate(address)).rejects.toThrow(
    new Error(
      `Cannot migrate the database forms at 127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port}`,
    ),
  );
});

test("an invalid database URL is rejected", async () => {
  await expect(migrate("secret")).rejects.toThrow(/^Cannot migrate: the database address is not a postgres/);
});

test("all migrations are pending in an empty database, none in a migrated one", async () => {
  expect(await pending((await createTestDatabase({ empty: true })).url)).toEqual(names);
  expect(await pending((await createTestDatabase()).url)).toEqual([]);
});

test("finished_at is recorded in UTC, even if the database has another time zone", async () => {
  const { url } = await createTestDatabase({ empty: true });
  await migrate(url);
  const recent =
    "SELECT bool_and(finished_at > now() - interval '1 minute') AS recent FROM _prisma_migrations";
  expect(await rows(url, recent)).toEqual([{ recent: true }]);
});

/** Copies the built service and adds migrations, by name. Returns the folder. */
async function copyVersion(migrations: Record<string, string>): Promise<string> {
  const folder = await makeTempFolder("version");
  for (const path of ["package.json", "dist", "prisma/schema.prisma", "prisma/migrations"])
    await cp(join(packageRoot(), path), join(folder, path), { recursive: true });
  await symlink(join(packageRoot(), "node_modules"), join(folder, "node_modules"));
  for (const [name, sql] of Object.entries(migrations)) {
    await mkdir(join(folder, "prisma/migrations", name));
    await writeFile(join(folder, "prisma/migrations", name, "migration.sql"), sql);
  }
  return folder;
}

function migrateInProcess(url: string, folder = packageRoot()): RunningProcess {
  const script = `
    import { migrate } from ${JSON.stringify(join(folder, "dist/prisma/migrate.js"))};
    console.log(JSON.stringify(await migrate(${JSON.stringify(url)}, { storeSecret: true, onProgress: console.log })));
  `;
  return spawnNode(["--input-type=module", "--eval", script]);
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}

async function rows(url: string, sql: string): Promise<unknown[]> {
  const client = await connect(url);
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

async function pending(url: string): Promise<string[]> {
  const client = await connect(url);
  return pendingMigrations(client).finally(() => client.end());
}

/** Starts a transaction that has created a table of the first migration, and is not committed. */
async function blockUsersTable(url: string): Promise<pg.Client> {
  const client = await connect(url);
  await client.query("BEGIN");
  await client.query("CREATE TABLE users (id int)");
  return client;
}

async function waitUntilBlocked(url: string): Promise<void> {
  const waiting =
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
  while ((await rows(url, waiting)).length === 0) await sleep(20);
}
