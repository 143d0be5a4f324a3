import { afterAll, beforeAll, expect, test } from "vitest";
import { explain } from "../../gateway/commands/failure.js";
import { type Db, openDb } from "../../server/db.js";
import { toServiceError } from "../../server/failures.js";
import { createTestDatabase, freePort, type TestDatabase } from "../harness.js";

const TIMES = { poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000, lockTimeoutMs: 9_000 };
const ROLE = `guest_forms_test_guest_${process.pid}`;

let database: TestDatabase;
let db: Db;
const opened: Db[] = [];

const open = (url: string, times: Partial<typeof TIMES> = {}): Db => {
  const one = openDb({ url, ...TIMES, ...times });
  opened.push(one);
  return one;
};

beforeAll(async () => {
  database = await createTestDatabase();
  db = open(database.url);
  await db.prisma.user.create({ data: { email: "ana@example.com" } });
  await db.pool.query(`CREATE ROLE ${ROLE} LOGIN PASSWORD 'pass%word'`);
});

afterAll(async () => {
  await db.pool.query(`DROP ROLE IF EXISTS ${ROLE}`);
  await Promise.all(opened.map((one) => one.close()));
});

/** The ways in which commands reach the database. */
const ways = (on: Db, sql: string) => [
  () => on.query(sql.slice(0, 60), sql, []),
  () => on.prisma.$queryRawUnsafe(sql),
  () => on.prisma.$transaction((tx) => tx.$executeRawUnsafe(sql)),
];

/** What an operator reads of a failure. */
async function said(work: () => Promise<unknown>, databaseUrl: string): Promise<string> {
  const failure = await work().then(
    () => new Error("it did not fail"),
    (error: unknown) => error,
  );
  const { message } = explain(toServiceError(failure), { databaseUrl });
  expect(message, "wording of libraries").not.toMatch(/prisma|\bP\d{4}\b|raw query|invocation|\n/i);
  return message;
}

async function expectAll(works: (() => Promise<unknown>)[], url: string, sentence: RegExp): Promise<void> {
  for (const work of works) expect(await said(work, url)).toMatch(sentence);
}

test("what PostgreSQL refuses is told in PostgreSQL's words, with its code", async () => {
  for (const [sql, sentence] of [
    ["SELECT 1/0", /^The database at 127\S+ returned an error: division by zero \(22012\)\.$/],
    ["SELECT nothing()", /returned an error: function nothing\(\) does not exist \(42883\)/],
    ["INSERT INTO users (email) VALUES ('ana@example.com') RETURNING id", /duplicate key value .* \(23505\)/],
  ] as const) {
    await expectAll(ways(db, sql), database.url, sentence);
  }
  const again = () => db.prisma.user.create({ data: { email: "ana@example.com" } });
  expect(await said(again, database.url)).toMatch(/duplicate key value .* \(23505\)/);
  expect(await said(again, database.url)).not.toContain("ana@example.com");
});

test("a user without rights, and one without connections", async () => {
  const url = new URL(database.url);
  [url.username, url.password] = [ROLE, "pass%25word"];
  const one = open(url.href);
  const reads = [...ways(one, "SELECT * FROM users"), () => one.prisma.user.findFirst()];
  await expectAll(reads, url.href, /returned an error: permission denied for table users \(42501\)/);
  await db.pool.query(`ALTER ROLE ${ROLE} CONNECTION LIMIT 0`);
  const crowded = open(url.href);
  const none = [...ways(crowded, "SELECT 1"), () => crowded.prisma.user.findFirst()];
  await expectAll(none, url.href, /^The database at 127\S+ has no free connections\.$/);
  url.password = "wrong";
  for (const secret of ["wrong", "pass%word"]) {
    expect(await said(() => open(url.href).query("one", "SELECT 1", []), url.href)).not.toContain(secret);
  }
});

test("a database that is read-only, slow, or not there", async () => {
  const readOnly = new URL(database.url);
  readOnly.searchParams.set("options", "-c default_transaction_read_only=on");
  const standby = open(readOnly.href);
  const writes = [
    ...ways(standby, "UPDATE users SET name = 'x'"),
    () => standby.prisma.user.create({ data: { email: "ben@example.com" } }),
  ];
  await expectAll(
    writes,
    database.url,
    /^The database at 127\S+ is read-only: check that it is not a standby\.$/,
  );

  const slow = open(database.url, { statementTimeoutMs: 50 });
  const waits = ways(slow, "SELECT pg_sleep(10)::text");
  await expectAll(waits, database.url, /^The database at 127\S+ did not answer in time\.$/);

  const url = `postgres://ana:secret@127.0.0.1:${await freePort()}/forms`;
  const gone = open(url);
  const asks = [...ways(gone, "SELECT 1"), () => gone.prisma.user.findFirst()];
  await expectAll(asks, url, /^The database at 127\S+ cannot be reached or did not answer in time/);
});

test("a fault of the program is said to be one", () => {
  const fault = Object.assign(new Error("\nInvalid call\n\nUnknown argument"), {
    name: "PrismaClientValidationError",
  });
  expect(explain(fault).message).toBe("This is a bug in guest-forms, please report it: Unknown argument");
});
