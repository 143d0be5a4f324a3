import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { type Db, openDb, type Transaction } from "../../server/db.js";
import { ServiceError } from "../../server/errors.js";
import { classify, needsOperator, toServiceError } from "../../server/failures.js";
import type { DbSettings } from "../../server/pool.js";
import { createTestDatabase } from "../support/database.js";
import { waitForBlocked } from "../support/locks.js";
import { freePort } from "../support/network.js";
import { catchError, LONG_TIMEOUTS, openClient, openTestDb } from "./open-test-db.js";

let url: string;
let db: Db;
/** A connection outside the pool. */
let other: pg.Client;

beforeAll(async () => {
  ({ url } = await createTestDatabase());
  db = openDb({ url, ...LONG_TIMEOUTS });
  await db.prisma.user.createMany({ data: [{ email: "a@example.com" }, { email: "b@example.com" }] });
});

afterAll(() => db.close());

beforeEach(async () => {
  other = await openClient(url);
});

const openWith = (settings: Partial<DbSettings>) => openTestDb({ url, ...settings });

/** Every way to run SQL text. */
const RAW_CLIENTS: Record<string, (on: Db, sql: string) => Promise<unknown>> = {
  "db.query": (on, sql) => on.query(sql.slice(0, 60), sql, []),
  "db.sqlTransaction": (on, sql) => on.sqlTransaction((tx) => tx.query(sql.slice(0, 60), sql, [])),
  "Prisma raw query": (on, sql) => on.prisma.$queryRawUnsafe(sql),
  "Prisma raw query in a transaction": (on, sql) => on.prisma.$transaction((tx) => tx.$queryRawUnsafe(sql)),
  "Prisma raw execute in a transaction": (on, sql) =>
    on.prisma.$transaction((tx) => tx.$executeRawUnsafe(sql)),
};

/** Every way to run SQL, and to read a user with Prisma's typed client. */
const ALL_CLIENTS: typeof RAW_CLIENTS = {
  ...RAW_CLIENTS,
  "Prisma typed query": (on) => on.prisma.user.findFirst(),
  "Prisma typed query in a transaction": (on) => on.prisma.$transaction((tx) => tx.user.findFirst()),
};

/** Runs the SQL with all clients at once. Returns how each failure is classified. */
async function classifyFor(clients: typeof RAW_CLIENTS, on: Db, sql: string) {
  const kinds = Object.entries(clients).map(
    async ([client, run]) => [client, classify(await catchError(run(on, sql)))] as const,
  );
  return Object.fromEntries(await Promise.all(kinds));
}

const each = (clients: object, kind: string) =>
  Object.fromEntries(Object.keys(clients).map((client) => [client, kind]));
const ALL_UNAVAILABLE = each(ALL_CLIENTS, "unavailable");
const RAW_UNAVAILABLE = each(RAW_CLIENTS, "unavailable");
const RAW_FAULT = each(RAW_CLIENTS, "fault");

const renameA = (tx: Transaction, name: string) =>
  tx.user.update({ where: { email: "a@example.com" }, data: { name } });

/** Every way to write a row in a transaction of Prisma's client. */
const WRITES: [string, (tx: Transaction, email: string) => Promise<unknown>][] = [
  ["typed", (tx, email) => tx.user.update({ where: { email }, data: { name: "x" } })],
  ["raw execute", (tx, email) => tx.$executeRaw`UPDATE users SET name = 'x' WHERE email = ${email}`],
  ["raw query", (tx, email) => tx.$queryRaw`UPDATE users SET name = 'x' WHERE email = ${email} RETURNING id`],
];

describe("classify() returns conflict, which is retried immediately, for", () => {
  test.each(WRITES)("a serialization failure in Prisma: %s", async (_, write) => {
    const work = async (tx: Transaction) => {
      await tx.user.findMany();
      await other.query("UPDATE users SET name = 'other' WHERE email = 'a@example.com'");
      await write(tx, "a@example.com");
    };
    const failed = db.prisma.$transaction(work, { isolationLevel: "RepeatableRead" });
    expect(classify(await catchError(failed))).toBe("conflict");
  });

  test("a serialization failure in SQL on the pool", async () => {
    const client = await db.pool.connect();
    try {
      await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
      await client.query("SELECT * FROM users");
      await other.query("UPDATE users SET name = 'other' WHERE email = 'a@example.com'");
      const error = await catchError(
        client.query("UPDATE users SET name = 'x' WHERE email = 'a@example.com'"),
      );
      expect(error).toMatchObject({ code: "40001" });
      expect(classify(error)).toBe("conflict");
    } finally {
      await client.query("ROLLBACK");
      client.release();
    }
  });

  test.each(WRITES)("a deadlock in Prisma: %s", async (_, write) => {
    await other.query("BEGIN");
    await other.query("UPDATE users SET name = 'other' WHERE email = 'b@example.com'");
    // The session with the shorter deadlock_timeout detects the deadlock and fails: the transaction below.
    await other.query("SET LOCAL deadlock_timeout = '1min'");
    let crossed: Promise<unknown> = Promise.resolve();
    const causeDeadlock = async (tx: Transaction) => {
      await tx.$executeRaw`SET LOCAL deadlock_timeout = '100ms'`;
      await renameA(tx, "x");
      crossed = other.query("UPDATE users SET name = 'other' WHERE email = 'a@example.com'");
      await waitForBlocked({ db }, 1);
      await write(tx, "b@example.com");
    };
    expect(classify(await catchError(db.prisma.$transaction(causeDeadlock)))).toBe("conflict");
    await crossed;
    await other.query("ROLLBACK");
  });
});

describe("classify() returns unavailable, which clients retry later, for", () => {
  test("a statement past the statement timeout", async () => {
    const one = openWith({ statementTimeoutMs: 60 });
    expect(await classifyFor(RAW_CLIENTS, one, "SELECT pg_sleep(5)::text")).toEqual(RAW_UNAVAILABLE);
  });

  test("a lock wait past the lock timeout", async () => {
    await other.query("BEGIN; LOCK TABLE users");
    const one = openWith({ lockTimeoutMs: 60 });
    expect(await classifyFor(ALL_CLIENTS, one, "SELECT count(*)::text FROM users")).toEqual(ALL_UNAVAILABLE);
    await other.query("ROLLBACK");
  });

  test("a backend terminated during a statement", async () => {
    const sql = "SELECT pg_terminate_backend(pg_backend_pid())::text";
    expect(await classifyFor(RAW_CLIENTS, db, sql)).toEqual(RAW_UNAVAILABLE);
  });

  test("a backend terminated between the statements of a transaction, typed and raw", async () => {
    for (const next of [
      (tx: Transaction) => tx.user.findFirst(),
      (tx: Transaction) => tx.$queryRaw`SELECT 1`,
      (tx: Transaction) => renameA(tx, "x"),
    ]) {
      const failed = db.prisma.$transaction(async (tx) => {
        const [row] = await tx.$queryRaw<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
        await other.query("SELECT pg_terminate_backend($1)", [row?.pid]);
        await next(tx);
      });
      expect(classify(await catchError(failed))).toBe("unavailable");
    }
  });

  test("a server that refuses connections or whose name does not resolve", async () => {
    const closed = `postgres://postgres@127.0.0.1:${await freePort()}/x`;
    for (const target of [closed, "postgres://postgres@nowhere.invalid/x"]) {
      expect(await classifyFor(ALL_CLIENTS, openWith({ url: target }), "SELECT 1")).toEqual(ALL_UNAVAILABLE);
    }
  });

  test.each([
    ["a server without TLS, which needs the operator", "sslmode", "verify-full", true],
    ["a server that rejects the session", "options", "-c no_such_setting=1", false],
  ])("%s", async (_, parameter, value, isForOperator) => {
    const target = new URL(url);
    target.searchParams.set(parameter, value);
    const one = openWith({ url: target.href });
    expect(await classifyFor(ALL_CLIENTS, one, "SELECT 1")).toEqual(ALL_UNAVAILABLE);
    for (const run of Object.values(ALL_CLIENTS)) {
      expect(needsOperator(await catchError(run(one, "SELECT 1")))).toBe(isForOperator);
    }
  });

  test("a server that refuses the connection in another language, with an unknown SQLSTATE or one that statements also have", async () => {
    for (const code of ["ZZ999", "55000", "42501"]) {
      const fields = { S: "in another language", V: "FATAL", C: code, M: "refused" };
      const refusal = `${Object.entries(fields)
        .map((field) => `${field.join("")}\0`)
        .join("")}\0`;
      const length = Buffer.alloc(4);
      length.writeInt32BE(4 + Buffer.byteLength(refusal));
      const server = createServer((socket) => {
        socket.once("data", () =>
          socket.end(Buffer.concat([Buffer.from("E"), length, Buffer.from(refusal)])),
        );
        socket.on("error", () => {});
      }).listen(0, "127.0.0.1");
      await once(server, "listening");
      const { port } = server.address() as AddressInfo;
      const one = openWith({ url: `postgres://postgres@127.0.0.1:${port}/x` });
      expect(await classifyFor(ALL_CLIENTS, one, "SELECT 1"), code).toEqual(ALL_UNAVAILABLE);
      server.close();
    }
  });

  test("a server that accepts connections and never responds", async () => {
    const silent = createServer().listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const one = openWith({ url: `postgres://postgres@127.0.0.1:${port}/x`, connectTimeoutMs: 60 });
    expect(await classifyFor(ALL_CLIENTS, one, "SELECT 1")).toEqual(ALL_UNAVAILABLE);
    silent.close();
  });

  test("a pool whose connections are all in use", async () => {
    const one = openWith({ poolSize: 1, connectTimeoutMs: 2_000 });
    const taken = await one.pool.connect();
    expect(await classifyFor(ALL_CLIENTS, one, "SELECT 1")).toEqual(ALL_UNAVAILABLE);
    taken.release();
  });

  test("a server at its connection limit", async () => {
    const role = `guest_forms_test_crowded_${process.pid}`;
    await other.query(`CREATE ROLE ${role} LOGIN PASSWORD 'x' CONNECTION LIMIT 0`);
    try {
      const target = new URL(url);
      [target.username, target.password] = [role, "x"];
      expect(await classifyFor(ALL_CLIENTS, openWith({ url: target.href }), "SELECT 1")).toEqual(
        ALL_UNAVAILABLE,
      );
    } finally {
      await other.query(`DROP ROLE ${role}`);
    }
  });

  test.each(WRITES)("a write to a read-only standby: %s", async (_, write) => {
    const failed = db.prisma.$transaction(async (tx) => {
      await tx.$executeRaw`SET TRANSACTION READ ONLY`;
      await write(tx, "a@example.com");
    });
    expect(classify(await catchError(failed))).toBe("unavailable");
  });

  test("a transaction past its timeout", async () => {
    const sleep = (tx: Transaction) => tx.$queryRaw`SELECT pg_sleep(0.3)::text`;
    expect(classify(await catchError(db.prisma.$transaction(sleep, { timeout: 50 })))).toBe("unavailable");
  });
});

test("a backend terminated while idle is replaced without an error", async () => {
  const reported: Error[] = [];
  const settings = { url, ...LONG_TIMEOUTS, poolSize: 1 };
  const one = openDb(settings, { onError: (error) => reported.push(error) });
  const [row] = await one.query<{ pid: number }>("pid", "SELECT pg_backend_pid() AS pid", []);
  await other.query("SELECT pg_terminate_backend($1)", [row?.pid]);
  await expect.poll(() => reported.length).toBe(1);
  expect(await one.query("pid", "SELECT pg_backend_pid() AS pid", [])).not.toEqual([row]);
  await one.close();
});

describe("classify() returns fault, which is not retried, for", () => {
  test.each(["SELECT * FROM no_such_table", "SELEC 1", "SELECT 1/0"])("%s", async (sql) => {
    expect(await classifyFor(RAW_CLIENTS, db, sql)).toEqual(RAW_FAULT);
  });

  test.each(["55000", "42501"])(
    "a statement that fails with %s, which is also a reason to refuse a connection",
    async (code) => {
      const sql = `DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '${code}'; END $$`;
      expect(await classifyFor(RAW_CLIENTS, db, sql)).toEqual(RAW_FAULT);
    },
  );

  test("a constraint violation, typed and raw", async () => {
    const raw = "INSERT INTO users (email) VALUES ('a@example.com') RETURNING email";
    expect(await classifyFor(RAW_CLIENTS, db, raw)).toEqual(RAW_FAULT);
    const typed = db.prisma.user.create({ data: { email: "a@example.com" } });
    expect(classify(await catchError(typed))).toBe("fault");
  });

  test("an error that is not from the database, also if its cause is itself", () => {
    const cyclic = new Error("x");
    cyclic.cause = cyclic;
    for (const error of [new Error("x"), new TypeError("y"), "40001", 40001, null, undefined, {}, cyclic]) {
      expect(classify(error)).toBe("fault");
    }
  });
});

test("toServiceError() returns 503 with retryAfter or 500, and keeps the cause out of the message", async () => {
  const lost = await catchError(db.prisma.$queryRaw`SELECT pg_terminate_backend(pg_backend_pid())::text`);
  const broken = await catchError(db.prisma.$queryRaw`SELECT * FROM no_such_table`);
  for (const [cause, status, retryAfter] of [
    [lost, 503, expect.any(Number)],
    [broken, 500, undefined],
  ]) {
    const error = toServiceError(cause);
    expect(error).toMatchObject({ serviceCode: "INTERNAL_ERROR", status, retryAfter, cause });
    expect(error.message).not.toMatch(/select|no_such_table|terminat|postgres|prisma/i);
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
