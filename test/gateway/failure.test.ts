import { afterAll, beforeAll, expect, test } from "vitest";
import { explain } from "../../gateway/commands/failure.js";
import { type Db, openDb } from "../../server/db.js";
import { toServiceError } from "../../server/failures.js";
import { createTestDatabase, type TestDatabase } from "../support/database.js";
import { freePort } from "../support/network.js";

const OPTIONS = { poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000, lockTimeoutMs: 9_000 };
const ROLE = `guest_forms_test_guest_${process.pid}`;

let database: TestDatabase;
let db: Db;
const connections: Db[] = [];

const open = (url: string, options: Partial<typeof OPTIONS> = {}): Db => {
  const opened = openDb({ url, ...OPTIONS, ...options });
  connections.push(opened);
  return opened;
};

beforeAll(async () => {
  database = await createTestDatabase();
  db = open(database.url);
  await db.prisma.user.create({ data: { email: "ana@example.com" } });
  await db.pool.query(`CREATE ROLE ${ROLE} LOGIN PASSWORD 'pass%word'`);
});

afterAll(async () => {
  await db.pool.query(`DROP ROLE IF EXISTS ${ROLE}`);
  await Promise.all(connections.map((connection) => connection.close()));
});

/** Each way in which commands query the database. */
const queryWithEachClient = (on: Db, sql: string) => [
  () => on.query(sql.slice(0, 60), sql, []),
  () => on.prisma.$queryRawUnsafe(sql),
  () => on.prisma.$transaction((tx) => tx.$executeRawUnsafe(sql)),
];

/** Returns the message that an operator sees when the query fails. */
async function explainFailure(query: () => Promise<unknown>, databaseUrl: string): Promise<string> {
  const failure = await query().then(
    () => new Error("it did not fail"),
    (error: unknown) => error,
  );
  const { message } = explain(toServiceError(failure), { databaseUrl });
  expect(message, "library-specific wording").not.toMatch(/prisma|\bP\d{4}\b|raw query|invocation|\n/i);
  return message;
}

async function expectMessage(
  queries: (() => Promise<unknown>)[],
  url: string,
  message: RegExp,
): Promise<void> {
  for (const query of queries) expect(await explainFailure(query, url)).toMatch(message);
}

test("an error of PostgreSQL is reported with its message and code, and without the values of the row", async () => {
  for (const [sql, message] of [
    ["SELECT 1/0", /^The database at 127\S+ returned an error: division by zero \(22012\)\.$/],
    ["SELECT nothing()", /returned an error: function nothing\(\) does not exist \(42883\)/],
    ["INSERT INTO users (email) VALUES ('ana@example.com') RETURNING id", /duplicate key value .* \(23505\)/],
  ] as const) {
    await expectMessage(queryWithEachClient(db, sql), database.url, message);
  }
  const createDuplicate = () => db.prisma.user.create({ data: { email: "ana@example.com" } });
  expect(await explainFailure(createDuplicate, database.url)).toMatch(/duplicate key value .* \(23505\)/);
  expect(await explainFailure(createDuplicate, database.url)).not.toContain("ana@example.com");
});

test("missing permissions and a full connection limit are reported without the password", async () => {
  const url = new URL(database.url);
  [url.username, url.password] = [ROLE, "pass%25word"];
  const restricted = open(url.href);
  const reads = [
    ...queryWithEachClient(restricted, "SELECT * FROM users"),
    () => restricted.prisma.user.findFirst(),
  ];
  await expectMessage(reads, url.href, /returned an error: permission denied for table users \(42501\)/);
  await db.pool.query(`ALTER ROLE ${ROLE} CONNECTION LIMIT 0`);
  const crowded = open(url.href);
  const none = [...queryWithEachClient(crowded, "SELECT 1"), () => crowded.prisma.user.findFirst()];
  await expectMessage(none, url.href, /^The database at 127\S+ has no free connections\.$/);
  url.password = "wrong%25word";
  const rejected = await explainFailure(() => open(url.href).query("one", "SELECT 1", []), url.href);
  expect(rejected).toMatch(/127\S+/);
  expect(rejected).not.toMatch(/wrong(%|%25)word/);
});

test("a read-only, a slow and an unreachable database are each reported as such", async () => {
  const readOnly = new URL(database.url);
  readOnly.searchParams.set("options", "-c default_transaction_read_only=on");
  const readOnlyDb = open(readOnly.href);
  const writes = [
    ...queryWithEachClient(readOnlyDb, "UPDATE users SET name = 'x'"),
    () => readOnlyDb.prisma.user.create({ data: { email: "ben@example.com" } }),
  ];
  await expectMessage(
    writes,
    database.url,
    /^The database at 127\S+ is read-only: check that it is not a standby\.$/,
  );

  const slow = open(database.url, { statementTimeoutMs: 50 });
  const waits = queryWithEachClient(slow, "SELECT pg_sleep(10)::text");
  await expectMessage(waits, database.url, /^The database at 127\S+ did not answer in time\.$/);

  const url = `postgres://ana:secret@127.0.0.1:${await freePort()}/forms`;
  const unreachable = open(url);
  const reads = [...queryWithEachClient(unreachable, "SELECT 1"), () => unreachable.prisma.user.findFirst()];
  await expectMessage(reads, url, /^The database at 127\S+ cannot be reached or did not answer in time/);
});

test("a programming error is reported as a bug in guest-forms", () => {
  const fault = Object.assign(new Error("\nInvalid call\n\nUnknown argument"), {
    name: "PrismaClientValidationError",
  });
  expect(explain(fault).message).toBe("This is a bug in guest-forms, please report it: Unknown argument");
});
