import { describe, expect, test } from "vitest";
import { runConcurrently } from "../../prisma/run-script.js";
import { openSession } from "../../prisma/session.js";
import { createTestDatabase } from "../support/database.js";
import { holdLock } from "../support/locks.js";
import { runSql } from "../support/run-sql.js";
import {
  blockPendingMigration,
  migrate,
  migrateWhileBlocked,
  PENDING,
  planMigrations,
  SQL,
} from "./blocked-migration.js";

describe("a migration of a table that another transaction holds", () => {
  test("is applied once the transaction has ended, and others read the table meanwhile", async () => {
    const { result, lines } = await migrateWhileBlocked();
    expect(result).toEqual({ applied: [PENDING] });
    expect(lines[0]).toMatch(
      /^Waiting for a lock\. The oldest transaction is open for \d+ s: process \d+ of Postgres \(test\)\.$/,
    );
  });

  test("is given up after a while with what to do, and changes nothing", async () => {
    const { url, blocker } = await blockPendingMigration();
    await expect(migrate(url, { lockWaitMs: 100 })).rejects.toThrow(
      /migration 20990101000000_pending failed: .*lock timeout.*\. Another transaction holds a lock that the migration needs\. It changed nothing; migrations before it stay applied\. End that transaction, then migrate again$/,
    );
    expect((await planMigrations(url)).map(({ name }) => name)).toEqual([PENDING]);
    await blocker.commit();
    expect(await migrate(url)).toEqual({ applied: [PENDING] });
  });

  test("can be planned with its locks, which takes none and changes nothing", async () => {
    const { url } = await blockPendingMigration();
    for (let n = 0; n < 2; n++) expect(await planMigrations(url)).toEqual([{ name: PENDING, sql: SQL }]);
  });
});

describe("an index that is built CONCURRENTLY", () => {
  const CREATE = 'CREATE UNIQUE INDEX CONCURRENTLY "users_name_key" ON "users" ("name")';
  const VALID = "SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = to_regclass('users_name_key')";

  /** Runs a script as the migrator does. Returns whether it is concurrent, and how many lines of progress it printed. */
  async function run(url: string, sql: string) {
    const pool = openSession(url);
    const session = await pool.connect();
    let lines = 0;
    const isConcurrent = await runConcurrently(session, sql, () => lines++).finally(() => session.release(true));
    await pool.end();
    return { isConcurrent, lines };
  }

  test("that an interrupted migration left behind is completed: an invalid one is built again, a valid one kept", async () => {
    const { url } = await createTestDatabase();
    await runSql(url, "INSERT INTO users (email, name) VALUES ('a@example.com', 'A'), ('b@example.com', 'A')");
    await expect(runSql(url, CREATE)).rejects.toThrow("could not create unique index");
    expect(await runSql(url, VALID)).toEqual([{ valid: false }]);
    await runSql(url, "UPDATE users SET name = email");
    expect(await run(url, CREATE)).toEqual({ isConcurrent: true, lines: 1 });
    expect(await runSql(url, VALID)).toEqual([{ valid: true }]);
    expect(await run(url, CREATE)).toEqual({ isConcurrent: true, lines: 0 });
    expect(await run(url, 'DROP INDEX CONCURRENTLY "users_name_key"')).toEqual({ isConcurrent: true, lines: 1 });
    expect(await run(url, 'DROP INDEX CONCURRENTLY "users_name_key"')).toEqual({ isConcurrent: true, lines: 0 });
  });

  test("that fails leaves no invalid index behind", async () => {
    const { url } = await createTestDatabase();
    await runSql(url, "INSERT INTO users (email, name) VALUES ('a@example.com', 'A'), ('b@example.com', 'A')");
    await expect(run(url, CREATE)).rejects.toThrow("could not create unique index");
    expect(await runSql(url, VALID)).toEqual([]);
  });

  test.each([
    ["CREATE INDEX CONCURRENTLY i ON users (name);", true],
    ['-- A comment.\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "i" ON "users" ("name")', true],
    ["drop index concurrently if exists i;\n-- the end", true],
    ["CREATE INDEX i ON users (name);", false],
    ["CREATE INDEX CONCURRENTLY ON users (name);", false],
    ["DROP TABLE a; CREATE INDEX CONCURRENTLY i ON users (name);", false],
  ])("is found by its first statement: %s", async (sql, isConcurrent) => {
    const { url } = await createTestDatabase();
    expect(await run(url, sql)).toMatchObject({ isConcurrent });
  });

  test("waits for a transaction that is open for longer than the limit for locks", async () => {
    const { url } = await createTestDatabase();
    const blocker = await holdLock({ db: { url } }, "LOCK TABLE users IN ROW EXCLUSIVE MODE");
    const built = run(url, CREATE);
    const waiting =
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND now() - query_start > '0.5 s'";
    await expect.poll(() => runSql(url, waiting)).toHaveLength(1);
    await blocker.commit();
    expect(await built).toEqual({ isConcurrent: true, lines: 1 });
  });
});
