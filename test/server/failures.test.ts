import { createServer, type Socket } from "node:net";
import type pg from "pg";
import { afterAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { type Db, openDb } from "../../server/database/db.js";
import { classify, type Failure, needsOperator, toServiceError } from "../../server/database/failures.js";
import type { DbSettings } from "../../server/database/pool.js";
import { ServiceError } from "../../server/errors.js";
import { createTestDatabase } from "../support/database.js";
import { freePort, listenLocally } from "../support/network.js";
import { catchError, LONG_TIMEOUTS, openClient, openTestDb } from "./open-test-db.js";

const { url } = await createTestDatabase();
const db = openDb({ DATABASE_URL: url, ...LONG_TIMEOUTS });
afterAll(() => db.close());

/** A connection outside the pool. */
let other: pg.Client;

beforeEach(async () => {
  other = await openClient(url);
});

const openWith = (settings: Partial<DbSettings>) => openTestDb({ DATABASE_URL: url, ...settings });

/** Opens a database whose URL has this part set. */
const openWithUrl = (change: (url: URL) => unknown) => {
  const target = new URL(url);
  change(target);
  return openWith({ DATABASE_URL: target.href });
};

/** Opens a server that handles its connections with `serve`. Closed after the test. */
async function openOn(serve: (socket: Socket) => unknown, settings: Partial<DbSettings> = {}) {
  const server = createServer((socket) => void serve(socket.on("error", () => {})));
  const port = await listenLocally(server);
  onTestFinished(() => void server.close());
  return openWith({ DATABASE_URL: `postgres://postgres@127.0.0.1:${port}/x`, ...settings });
}

/** Every way in which the service runs SQL whose failure it classifies. */
const CLIENTS: [name: string, (on: Db, sql: string) => Promise<unknown>][] = [
  ["db.query", (on, sql) => on.query(sql.slice(0, 60), sql, [])],
  ["db.sqlTransaction", (on, sql) => on.sqlTransaction((tx) => tx.query(sql.slice(0, 60), sql, []))],
];

/** Runs the SQL in all ways at once. Returns what they fail with, by way. */
async function failAll<Result>(on: Db, read: (error: unknown) => Result, sql = "SELECT 1") {
  const failed = CLIENTS.map(async ([name, run]) => [name, read(await catchError(run(on, sql)))] as const);
  return Object.fromEntries(await Promise.all(failed));
}

async function expectAll(kind: Failure, on: Db, sql?: string) {
  const kinds = await failAll(on, classify, sql);
  expect(new Set(Object.values(kinds)), JSON.stringify([sql, kinds])).toEqual(new Set([kind]));
}

const raise = (code: string) => `DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '${code}'; END $$`;

describe("classify() returns conflict, which is retried immediately, for", () => {
  test.each(["serialization_failure", "deadlock_detected"])("a %s", (name) => expectAll("conflict", db, raise(name)));
});

describe("classify() returns unavailable, which clients retry later, for", () => {
  test.each<[string, () => Db | Promise<Db>, string?]>([
    [
      "a statement past the statement timeout",
      () => openWith({ DATABASE_STATEMENT_TIMEOUT_MS: 60 }),
      "SELECT pg_sleep(5)::text",
    ],
    ["a backend terminated", () => db, "SELECT pg_terminate_backend(pg_backend_pid())::text"],
    ["a statement on a full disk", () => db, raise("disk_full")],
    ["a server that never responds", () => openOn(() => {}, { DATABASE_CONNECT_TIMEOUT_MS: 60 })],
    ["a host name that does not resolve", () => openWith({ DATABASE_URL: "postgres://postgres@nowhere.invalid/x" })],
    ["a closed port", async () => openWith({ DATABASE_URL: `postgres://postgres@127.0.0.1:${await freePort()}/x` })],
  ])("%s", async (_, open, sql) => expectAll("unavailable", await open(), sql));

  test("a lock wait past the lock timeout, and a pool whose connections are all in use", async () => {
    await other.query("BEGIN; LOCK TABLE users");
    await expectAll("unavailable", openWith({ DATABASE_LOCK_TIMEOUT_MS: 60 }), "SELECT count(*)::text FROM users");
    await other.query("ROLLBACK");
    const full = openWith({ DATABASE_POOL_SIZE: 1, DATABASE_CONNECT_TIMEOUT_MS: 500 });
    const taken = await full.pool.connect();
    await expectAll("unavailable", full);
    taken.release();
  });

  test.each([
    ["a server without TLS, which needs the operator", "sslmode", "verify-full", true],
    ["a server that rejects the session", "options", "-c no_such_setting=1", false],
  ])("%s", async (_, parameter, value, isForOperator) => {
    const one = openWithUrl(({ searchParams }) => searchParams.set(parameter, value));
    await expectAll("unavailable", one);
    expect(new Set(Object.values(await failAll(one, needsOperator)))).toEqual(new Set([isForOperator]));
  });

  // The first is of Node.js 20, the second of 22 and later.
  test.each(["ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE", "ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE"])(
    "a failed TLS handshake, %s, which needs the operator",
    (code) => {
      const error = Object.assign(new Error("handshake failure"), { code });
      expect([classify(error), needsOperator(error)]).toEqual(["unavailable", true]);
    },
  );

  test("a server that refuses the connection in another language, with an unknown SQLSTATE or one that statements also have", async () => {
    for (const code of ["ZZ999", "55000", "42501"]) {
      const fields = { S: "in another language", V: "FATAL", C: code, M: "refused" };
      const texts = Object.entries(fields).map(([type, text]) => `${type}${text}\0`);
      const refusal = Buffer.from(`E\0\0\0\0${texts.join("")}\0`);
      refusal.writeInt32BE(refusal.length - 1, 1);
      await expectAll("unavailable", await openOn((socket) => socket.once("data", () => socket.end(refusal))));
    }
  });

  test("a server at its connection limit", async () => {
    const role = `guest_forms_test_crowded_${process.pid}`;
    await other.query(`CREATE ROLE ${role} LOGIN PASSWORD 'x' CONNECTION LIMIT 0`);
    try {
      await expectAll(
        "unavailable",
        openWithUrl((target) => Object.assign(target, { username: role, password: "x" })),
      );
    } finally {
      await other.query(`DROP ROLE ${role}`);
    }
  });

  test.each([
    ["a function that a standby lacks", "55000"],
    ["a privilege that the role lacks", "42501"],
    ["a disk without space", "53100"],
    ["a database that is read-only", "25006"],
  ])("%s, which needs the operator", async (_, code) => {
    await expectAll("unavailable", db, raise(code));
    expect(new Set(Object.values(await failAll(db, needsOperator, raise(code))))).toEqual(new Set([true]));
  });
});

describe("classify() returns fault, which is not retried, for", () => {
  test.each(["SELECT 1/0", "INSERT INTO users (email) VALUES (NULL) RETURNING email"])("%s", (sql) =>
    expectAll("fault", db, sql),
  );

  test("an error that is not from a statement, also if its cause is itself", () => {
    const cyclic = new Error("x");
    cyclic.cause = cyclic;
    for (const error of [new TypeError("y"), "40001", 40001, null, undefined, {}, cyclic]) {
      expect(classify(error)).toBe("fault");
    }
  });
});

test("toServiceError() returns 503 with retryAfter or 500, and keeps the cause out of the message", async () => {
  const lost = await catchError(db.query("lost", "SELECT pg_terminate_backend(pg_backend_pid())::text", []));
  const broken = await catchError(db.query("broken", "SELECT * FROM no_such_table", []));
  for (const [cause, status, retryAfter] of [
    [lost, 503, expect.any(Number)],
    [broken, 500, undefined],
  ]) {
    const error = toServiceError(cause);
    expect(error).toMatchObject({ serviceCode: "INTERNAL_ERROR", status, retryAfter, cause });
    expect(error.message).not.toMatch(/select|no_such_table|terminat|postgres/i);
  }
  const serviceError = new ServiceError("RESOURCE_NOT_FOUND");
  expect(toServiceError(serviceError)).toBe(serviceError);
});

test("a 503 asks clients to return after 1, 2 or 3 seconds at random", () => {
  const random = vi.spyOn(Math, "random");
  onTestFinished(() => random.mockRestore());
  const seconds = [0, 0.34, 0.67, 0.999999].map((value) => {
    random.mockReturnValue(value);
    return toServiceError(Object.assign(new Error(), { code: "ECONNREFUSED" })).retryAfter;
  });
  expect(seconds).toEqual([1, 2, 3, 3]);
});
