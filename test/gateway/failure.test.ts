import { expect, test } from "vitest";
import { explain } from "../../gateway/cli/failure.js";
import { type Db, openDb } from "../../server/database/db.js";
import { toServiceError } from "../../server/database/failures.js";
import { afterFile } from "../support/after-file.js";
import { createTestDatabase } from "../support/database.js";
import { freePort } from "../support/network.js";

const OPTIONS = {
  DATABASE_PREPARED: true,
  DATABASE_POOL_SIZE: 2,
  DATABASE_CONNECT_TIMEOUT_MS: 10_000,
  DATABASE_STATEMENT_TIMEOUT_MS: 10_000,
  DATABASE_LOCK_TIMEOUT_MS: 9_000,
};
const ROLE = `guest_forms_test_guest_${process.pid}`;

const database = await createTestDatabase();
const open = (url: string, options: Partial<typeof OPTIONS> = {}): Db => {
  const opened = openDb({ DATABASE_URL: url, ...OPTIONS, ...options });
  afterFile(() => opened.close());
  return opened;
};
const db = open(database.url);
await db.query("insert", "INSERT INTO users (email) VALUES ('ana@example.com')", []);
await db.pool.query(`CREATE ROLE ${ROLE} LOGIN PASSWORD 'pass%word'`);
afterFile(() => db.pool.query(`DROP ROLE ${ROLE}`));

/** Returns the message that an operator sees when the query fails. */
async function explainFailure(query: () => Promise<unknown>, databaseUrl: string): Promise<string> {
  const failure = await query().then(
    () => new Error("it did not fail"),
    (error: unknown) => error,
  );
  const { message } = explain(toServiceError(failure), { databaseUrl });
  expect(message, "more lines, or values of the row").not.toMatch(/\n|ana@example\.com/);
  return message;
}

/** Runs a statement in each way in which commands query the database. */
async function expectMessage(on: Db, sql: string, url: string, message: RegExp): Promise<void> {
  for (const query of [
    () => on.query(sql.slice(0, 60), sql, []),
    () => on.sqlTransaction((tx) => tx.query(sql.slice(0, 60), sql, [])),
  ]) {
    expect(await explainFailure(query, url)).toMatch(message);
  }
}

test("an error of PostgreSQL is reported with its message and code, and without the values of the row", async () => {
  for (const [sql, message] of [
    ["SELECT 1/0", /^The database at 127\S+ returned an error: division by zero \(22012\)\.$/],
    ["INSERT INTO users (email) VALUES ('ana@example.com') RETURNING id", /duplicate key value .* \(23505\)/],
  ] as const) {
    await expectMessage(db, sql, database.url, message);
  }
});

test("missing permissions and a full connection limit are reported without the password", async () => {
  const { href } = Object.assign(new URL(database.url), { username: ROLE, password: "pass%25word" });
  const denied = /returned an error: permission denied for table users \(42501\)/;
  await expectMessage(open(href), "SELECT * FROM users", href, denied);
  await db.pool.query(`ALTER ROLE ${ROLE} CONNECTION LIMIT 0`);
  await expectMessage(open(href), "SELECT 1", href, /^The database at 127\S+ has no free connections\.$/);
  const wrong = href.replace("pass%25word", "wrong%25word");
  const rejected = await explainFailure(() => open(wrong).query("one", "SELECT 1", []), wrong);
  expect(rejected).toMatch(/127\S+/);
  expect(rejected).not.toMatch(/wrong(%|%25)word/);
});

test("a read-only, a slow and an unreachable database are each reported as such", async () => {
  const readOnly = new URL(database.url);
  readOnly.searchParams.set("options", "-c default_transaction_read_only=on");
  const standby = /^The database at 127\S+ is read-only: check that it is not a standby\.$/;
  await expectMessage(open(readOnly.href), "UPDATE users SET name = 'x'", database.url, standby);

  const slow = open(database.url, { DATABASE_STATEMENT_TIMEOUT_MS: 50 });
  const inTime = /^The database at 127\S+ did not answer in time\.$/;
  await expectMessage(slow, "SELECT pg_sleep(10)::text", database.url, inTime);

  const url = `postgres://ana:secret@127.0.0.1:${await freePort()}/forms`;
  const unreachable = /^The database at 127\S+ cannot be reached or did not answer in time/;
  await expectMessage(open(url), "SELECT 1", url, unreachable);
});
