import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { describe, expect, inject, test } from "vitest";
import { diffSchema } from "../../prisma/diff.js";
import { migrationNames, schemaFile } from "../../prisma/engine.js";
import { migrate, pendingMigrations } from "../../prisma/migrate.js";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase, freePort, type RunningProcess, spawnNode } from "../harness.js";

const names = await migrationNames();

test("migrations equal schema.prisma", async () => {
  expect(await diffSchema(inject("serverUrl"))).toBe("");
});

test("a table that no migration makes is noticed", async () => {
  const schema = await readFile(schemaFile(), "utf8");
  const sql = await diffSchema(inject("serverUrl"), `${schema}\nmodel Extra {\n  id Int @id\n}\n`);
  expect(sql).toContain('CREATE TABLE "Extra"');
});

test("four processes migrating at once leave one complete schema", async () => {
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

test("a migrated database is left as it is", async () => {
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

  test("is up to date if it has all of ours too: a newer version has migrated it", async () => {
    const { url } = await createTestDatabase();
    await record(url, "20990101000000_later");
    expect(await migrate(url)).toEqual({ applied: [] });
    expect(await pending(url)).toEqual([]);
  });

  test("is refused by name and left as it is if it lacks one of ours", async () => {
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

test("options in the address do not take our settings' place", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const address = new URL(url);
  address.searchParams.set("options", "-c timezone=Asia/Tokyo -c statement_timeout=1");
  expect(await migrate(address.href)).toEqual({ applied: names });
});

test("no secret is stored where the operator has one", async () => {
  const { url } = await createTestDatabase({ empty: true });
  await migrate(url);
  expect(await rows(url, "SELECT * FROM stored_secrets")).toEqual([]);
});

test("a migration whose process was killed is completed once", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const blocker = await blockUsersTable(url);
  const killed = migrateInProcess(url);
  await isBlocked(url);
  await killed.stop("SIGKILL");
  const next = migrateInProcess(url);
  // The server still runs the killed process's script, which must not be applied beside it.
  await next.waitForLine(/waiting/);
  await blocker.query("ROLLBACK");
  await blocker.end();
  expect(await next.done).toMatchObject({ code: 0, stderr: "" });
  expect(await pending(url)).toEqual([]);
});

test("a migration that failed is named, and applied again once its cause is gone", async () => {
  const { url } = await createTestDatabase({ empty: true });
  const blocker = await blockUsersTable(url);
  const failing = migrate(url).then(
    () => "",
    (error: Error) => error.message,
  );
  await isBlocked(url);
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

test("users whose addresses differ only in case stop the migration with their ids, until one has another address", async () => {
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

test("a database out of reach is told in one sentence without its password", async () => {
  const port = await freePort();
  const address = `postgres://someone:open%20sesame@127.0.0.1:${port}/forms`;
  await expect(migrate(address)).rejects.toThrow(
    new Error(
      `Cannot migrate the database forms at 127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port}`,
    ),
  );
});

test("an address that is no URL is told", async () => {
  await expect(migrate("secret")).rejects.toThrow(/^Cannot migrate: the database address is not a postgres/);
});

test("all migrations are pending in an empty database, none in a migrated one", async () => {
  expect(await pending((await createTestDatabase({ empty: true })).url)).toEqual(names);
  expect(await pending((await createTestDatabase()).url)).toEqual([]);
});

test("what a migration records is UTC in a database of another time zone", async () => {
  const { url } = await createTestDatabase({ empty: true });
  await migrate(url);
  const recent =
    "SELECT bool_and(finished_at > now() - interval '1 minute') AS recent FROM _prisma_migrations";
  expect(await rows(url, recent)).toEqual([{ recent: true }]);
});

function migrateInProcess(url: string): RunningProcess {
  const script = `
    import { migrate } from ${JSON.stringify(join(packageRoot(), "dist/prisma/migrate.js"))};
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

/** A transaction that has made, and not committed, a table which the first migration makes too. */
async function blockUsersTable(url: string): Promise<pg.Client> {
  const client = await connect(url);
  await client.query("BEGIN");
  await client.query("CREATE TABLE users (id int)");
  return client;
}

async function isBlocked(url: string): Promise<void> {
  const waiting =
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
  while ((await rows(url, waiting)).length === 0) await sleep(20);
}
