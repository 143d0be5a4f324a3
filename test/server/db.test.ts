import { createServer } from "node:net";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Db, openDb, type Sql, type Transaction } from "../../server/db.js";
import { ServiceError } from "../../server/errors.js";
import { classify, needsOperator, toServiceError } from "../../server/failures.js";
import { createTestDatabase, freePort, type TestDatabase } from "../harness.js";

const LONG_TIMEOUTS = {
  poolSize: 4,
  connectTimeoutMs: 5_000,
  statementTimeoutMs: 5_000,
  lockTimeoutMs: 4_000,
};

let database: TestDatabase;
let db: Db;
/** A connection outside the pool. */
let other: pg.Client;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDb({ url: database.url, ...LONG_TIMEOUTS });
  await db.prisma.user.createMany({ data: [{ email: "a@example.com" }, { email: "b@example.com" }] });
});

afterAll(() => db.close());

beforeEach(async () => {
  other = new pg.Client({ connectionString: database.url });
  // Some tests terminate it.
  other.on("error", () => {});
  await other.connect();
});

afterEach(() => other.end());

const conflict = (message: string) => Object.assign(new Error(message), { code: "40001" });

const opened: Db[] = [];

afterEach(async () => {
  await Promise.all(opened.splice(0).map((one) => one.close()));
});

/** Opens the database with other settings. Closed after the test. */
function openWith(settings: Partial<typeof LONG_TIMEOUTS & { url: string }>): Db {
  const one = openDb({ url: database.url, ...LONG_TIMEOUTS, ...settings });
  opened.push(one);
  return one;
}

async function catchError(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => {
      throw new Error("the work succeeded");
    },
    (error: unknown) => error,
  );
}

/** Every way to run SQL text. */
const RAW_CLIENTS: Record<string, (on: Db, sql: string) => Promise<unknown>> = {
  "db.query": (on, sql) => on.query(sql.slice(0, 60), sql, []),
  "db.sqlTransaction": (on, sql) => on.sqlTransaction((tx) => tx.query(sql.slice(0, 60), sql, [])),
  "Prisma raw query": (on, sql) => on.prisma.$queryRawUnsafe(sql),
  "Prisma raw query in a transaction": (on, sql) => on.prisma.$transaction((tx) => tx.$queryRawUnsafe(sql)),
  "Prisma raw execute in a transaction": (on, sql) =>
    on.prisma.$transaction((tx) => tx.$executeRawUnsafe(sql)),
};

async function expectFailure(client: string, kind: string, on: Db, sql: string): Promise<void> {
  const run = RAW_CLIENTS[client];
  if (!run) throw new Error(client);
  expect(classify(await catchError(run(on, sql)))).toBe(kind);
}

/** Every way to read a user with Prisma's typed client. */
const TYPED_CLIENTS: Record<string, (on: Db) => Promise<unknown>> = {
  "Prisma typed query": (on) => on.prisma.user.findFirst(),
  "Prisma typed query in a transaction": (on) => on.prisma.$transaction((tx) => tx.user.findFirst()),
};

const renameA = (tx: Transaction, name: string) =>
  tx.user.update({ where: { email: "a@example.com" }, data: { name } });

describe("classify() returns conflict, which is retried immediately, for", () => {
  /** Returns the serialization failure of a transaction that writes a row which changed after its snapshot. */
  async function causeSerializationFailure(write: (tx: Transaction) => Promise<unknown>): Promise<unknown> {
    return catchError(
      db.prisma.$transaction(
        async (tx) => {
          await tx.user.findMany();
          await other.query("UPDATE users SET name = 'other' WHERE email = 'a@example.com'");
          await write(tx);
        },
        { isolationLevel: "RepeatableRead" },
      ),
    );
  }

  test("a serialization failure in Prisma, typed and raw", async () => {
    const raw = (tx: Transaction) =>
      tx.$executeRaw`UPDATE users SET name = 'x' WHERE email = 'a@example.com'`;
    const queried = (tx: Transaction) =>
      tx.$queryRaw`UPDATE users SET name = 'x' WHERE email = 'a@example.com' RETURNING id`;
    for (const write of [(tx: Transaction) => renameA(tx, "x"), raw, queried]) {
      expect(classify(await causeSerializationFailure(write))).toBe("conflict");
    }
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

  test.each<[string, (tx: Transaction) => Promise<unknown>]>([
    ["typed", (tx) => tx.user.update({ where: { email: "b@example.com" }, data: { name: "x" } })],
    ["raw execute", (tx) => tx.$executeRaw`UPDATE users SET name = 'x' WHERE email = 'b@example.com'`],
    ["raw query", (tx) => tx.$queryRaw`SELECT id FROM users WHERE email = 'b@example.com' FOR UPDATE`],
  ])("a deadlock in Prisma: %s", async (_, write) => {
    await other.query("BEGIN");
    await other.query("UPDATE users SET name = 'other' WHERE email = 'b@example.com'");
    // The session with the shorter deadlock_timeout detects the deadlock and fails: the transaction below.
    await other.query("SET LOCAL deadlock_timeout = '1min'");
    const causeDeadlock = async (tx: Transaction) => {
      await tx.$executeRaw`SET LOCAL deadlock_timeout = '100ms'`;
      await renameA(tx, "x");
      crossed = other.query("UPDATE users SET name = 'other' WHERE email = 'a@example.com'");
      await expect.poll(countBlocked).toBe(1);
      await write(tx);
    };
    let crossed: Promise<unknown> = Promise.resolve();
    const error = await catchError(db.prisma.$transaction(causeDeadlock));
    expect(classify(error)).toBe("conflict");
    await crossed;
    await other.query("ROLLBACK");
  });

  const countBlocked = async () => {
    const { rows } = await db.pool.query(
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    );
    return rows.length;
  };
});

describe("classify() returns unavailable, which clients retry later, for", () => {
  test.each(Object.keys(RAW_CLIENTS))("a statement past the statement timeout: %s", async (client) => {
    await expectFailure(
      client,
      "unavailable",
      openWith({ statementTimeoutMs: 60 }),
      "SELECT pg_sleep(5)::text",
    );
  });

  test.each(Object.keys(RAW_CLIENTS))("a lock wait past the lock timeout: %s", async (client) => {
    await other.query("BEGIN; LOCK TABLE users");
    await expectFailure(
      client,
      "unavailable",
      openWith({ lockTimeoutMs: 60 }),
      "SELECT count(*)::text FROM users",
    );
    await other.query("ROLLBACK");
  });

  test.each(Object.keys(TYPED_CLIENTS))("a lock wait past the lock timeout: %s", async (client) => {
    await other.query("BEGIN; LOCK TABLE users");
    expect(
      classify(
        await catchError(TYPED_CLIENTS[client]?.(openWith({ lockTimeoutMs: 60 })) ?? Promise.resolve()),
      ),
    ).toBe("unavailable");
    await other.query("ROLLBACK");
  });

  test.each(Object.keys(RAW_CLIENTS))("a backend terminated during a statement: %s", async (client) => {
    await expectFailure(client, "unavailable", db, "SELECT pg_terminate_backend(pg_backend_pid())::text");
  });

  test("a backend terminated between the statements of a transaction, typed and raw", async () => {
    for (const next of [
      (tx: Transaction) => tx.user.findFirst(),
      (tx: Transaction) => tx.$queryRaw`SELECT 1`,
      (tx: Transaction) => renameA(tx, "x"),
    ]) {
      const error = await catchError(
        db.prisma.$transaction(async (tx) => {
          const [row] = await tx.$queryRaw<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
          await other.query("SELECT pg_terminate_backend($1)", [row?.pid]);
          await next(tx);
        }),
      );
      expect(classify(error)).toBe("unavailable");
    }
  });

  test("a backend terminated while idle is replaced without an error", async () => {
    const reported: Error[] = [];
    const one = openDb(
      { url: database.url, ...LONG_TIMEOUTS, poolSize: 1 },
      { onError: (error) => reported.push(error) },
    );
    opened.push(one);
    const [row] = await one.query<{ pid: number }>("pid", "SELECT pg_backend_pid() AS pid", []);
    await other.query("SELECT pg_terminate_backend($1)", [row?.pid]);
    await expect.poll(() => reported.length).toBe(1);
    expect(await one.query("pid", "SELECT pg_backend_pid() AS pid", [])).not.toEqual([row]);
  });

  test("a server that refuses connections or whose name does not resolve", async () => {
    const closed = `postgres://postgres@127.0.0.1:${await freePort()}/x`;
    const nowhere = "postgres://postgres@nowhere.invalid/x";
    for (const url of [closed, nowhere]) {
      const one = openWith({ url });
      for (const run of [...Object.values(RAW_CLIENTS), ...Object.values(TYPED_CLIENTS)]) {
        expect(classify(await catchError(run(one, "SELECT 1")))).toBe("unavailable");
      }
    }
  });

  test("a server without TLS, or that rejects the session; only the first needs the operator", async () => {
    const withoutTls = new URL(database.url);
    withoutTls.searchParams.set("sslmode", "verify-full");
    const refused = new URL(database.url);
    refused.searchParams.set("options", "-c no_such_setting=1");
    for (const { href } of [withoutTls, refused]) {
      const one = openWith({ url: href });
      for (const run of [...Object.values(RAW_CLIENTS), ...Object.values(TYPED_CLIENTS)]) {
        const error = await catchError(run(one, "SELECT 1"));
        expect(classify(error)).toBe("unavailable");
        expect(needsOperator(error)).toBe(href === withoutTls.href);
      }
    }
  });

  test("a server that accepts connections and never responds", async () => {
    const silent = createServer();
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const address = silent.address();
    const port = typeof address === "object" && address ? address.port : 0;
    const one = openWith({ url: `postgres://postgres@127.0.0.1:${port}/x`, connectTimeoutMs: 60 });
    for (const run of [...Object.values(RAW_CLIENTS), ...Object.values(TYPED_CLIENTS)]) {
      expect(classify(await catchError(run(one, "SELECT 1")))).toBe("unavailable");
    }
    silent.close();
  });

  test("a pool whose connections are all in use", async () => {
    const one = openWith({ poolSize: 1, connectTimeoutMs: 700 });
    const taken = await one.pool.connect();
    for (const run of [...Object.values(RAW_CLIENTS), ...Object.values(TYPED_CLIENTS)]) {
      expect(classify(await catchError(run(one, "SELECT 1")))).toBe("unavailable");
    }
    taken.release();
  });

  test("a server at its connection limit", async () => {
    const role = `guest_forms_test_crowded_${process.pid}`;
    await other.query(`CREATE ROLE ${role} LOGIN PASSWORD 'x' CONNECTION LIMIT 0`);
    try {
      const url = new URL(database.url);
      [url.username, url.password] = [role, "x"];
      const one = openWith({ url: url.href });
      for (const run of [...Object.values(RAW_CLIENTS), ...Object.values(TYPED_CLIENTS)]) {
        expect(classify(await catchError(run(one, "SELECT 1")))).toBe("unavailable");
      }
    } finally {
      await other.query(`DROP ROLE ${role}`);
    }
  });

  test("a write to a read-only standby, typed and raw", async () => {
    const readOnly = (tx: Transaction) => tx.$executeRaw`SET TRANSACTION READ ONLY`;
    for (const write of [
      (tx: Transaction) => renameA(tx, "x"),
      (tx: Transaction) => tx.$executeRaw`UPDATE users SET name = 'x'`,
      (tx: Transaction) => tx.$queryRaw`UPDATE users SET name = 'x' RETURNING id`,
    ]) {
      const error = await catchError(
        db.prisma.$transaction(async (tx) => {
          await readOnly(tx);
          await write(tx);
        }),
      );
      expect(classify(error)).toBe("unavailable");
    }
  });

  test("a transaction past its timeout", async () => {
    const error = await catchError(
      db.prisma.$transaction(async (tx) => tx.$queryRaw`SELECT pg_sleep(0.3)::text`, { timeout: 50 }),
    );
    expect(classify(error)).toBe("unavailable");
  });
});

describe("classify() returns fault, which is not retried, for", () => {
  test.each(Object.keys(RAW_CLIENTS))(
    "an unknown table, a syntax error and a division by zero: %s",
    async (client) => {
      for (const sql of ["SELECT * FROM no_such_table", "SELEC 1", "SELECT 1/0"]) {
        await expectFailure(client, "fault", db, sql);
      }
    },
  );

  test("a constraint violation, typed and raw", async () => {
    const raw = "INSERT INTO users (email) VALUES ('a@example.com') RETURNING email";
    for (const client of Object.keys(RAW_CLIENTS)) await expectFailure(client, "fault", db, raw);
    const typed = db.prisma.user.create({ data: { email: "a@example.com" } });
    expect(classify(await catchError(typed))).toBe("fault");
  });

  test("an error that is not from the database", () => {
    for (const error of [new Error("x"), new TypeError("y"), "40001", 40001, null, undefined, {}]) {
      expect(classify(error)).toBe("fault");
    }
  });

  test("an error whose cause is itself", () => {
    const error = new Error("x");
    error.cause = error;
    expect(classify(error)).toBe("fault");
  });
});

describe("toServiceError()", () => {
  test("returns 503 with retryAfter or 500, and keeps the cause out of the message", async () => {
    const lost = await catchError(db.prisma.$queryRaw`SELECT pg_terminate_backend(pg_backend_pid())::text`);
    const unavailable = toServiceError(lost);
    expect(unavailable).toMatchObject({
      serviceCode: "INTERNAL_ERROR",
      status: 503,
      retryAfter: 1,
      cause: lost,
    });
    const broken = await catchError(db.prisma.$queryRaw`SELECT * FROM no_such_table`);
    const fault = toServiceError(broken);
    expect(fault).toMatchObject({
      serviceCode: "INTERNAL_ERROR",
      status: 500,
      retryAfter: undefined,
      cause: broken,
    });
    for (const { message } of [unavailable, fault]) {
      expect(message).not.toMatch(/select|no_such_table|terminat|postgres|prisma/i);
    }
    const serviceError = new ServiceError("RESOURCE_NOT_FOUND");
    expect(toServiceError(serviceError)).toBe(serviceError);
  });
});

describe("transaction()", () => {
  test("is retried from the start after a conflict, and commits once", async () => {
    let attempts = 0;
    const result = await db.transaction(async (tx) => {
      attempts++;
      await tx.$executeRaw`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`;
      await tx.user.create({ data: { email: `attempt${attempts}@example.com` } });
      if (attempts < 3)
        await other.query("UPDATE users SET name = name || 'x' WHERE email = 'a@example.com'");
      await renameA(tx, `attempt ${attempts}`);
      return attempts;
    });
    expect(result).toBe(3);
    const created = await db.prisma.user.findMany({ where: { email: { startsWith: "attempt" } } });
    expect(created.map(({ email }) => email)).toEqual(["attempt3@example.com"]);
  });

  test("gives up after four attempts", async () => {
    let attempts = 0;
    const error = await catchError(
      db.transaction(async (tx) => {
        attempts++;
        await tx.$executeRaw`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`;
        await tx.user.findMany();
        await other.query("UPDATE users SET name = 'other' WHERE email = 'a@example.com'");
        await renameA(tx, "x");
      }),
    );
    expect(attempts).toBe(4);
    expect(toServiceError(error)).toMatchObject({ status: 503, retryAfter: 1 });
  });

  test("is not retried after other failures", async () => {
    for (const failing of [
      async (tx: Transaction) => void (await tx.$queryRaw`SELECT * FROM no_such_table`),
      async (tx: Transaction) =>
        void (await tx.$queryRaw`SELECT pg_terminate_backend(pg_backend_pid())::text`),
      async () => {
        throw new ServiceError("RESOURCE_NOT_FOUND");
      },
    ]) {
      let attempts = 0;
      await catchError(
        db.transaction(async (tx) => {
          attempts++;
          await failing(tx);
        }),
      );
      expect(attempts).toBe(1);
    }
  });

  test("is rolled back if its work fails", async () => {
    await catchError(
      db.transaction(async (tx) => {
        await tx.user.create({ data: { email: "gone@example.com" } });
        throw new Error("on purpose");
      }),
    );
    expect(await db.prisma.user.count({ where: { email: "gone@example.com" } })).toBe(0);
  });
});

describe("sqlTransaction()", () => {
  const rename = (tx: Sql, name: string) =>
    tx.query("rename", "UPDATE users SET name = $1 WHERE email = 'a@example.com' RETURNING name", [name]);

  test("is retried from the start after a serialization failure or an error with its code, and commits once", async () => {
    let attempts = 0;
    const result = await db.sqlTransaction(async (tx) => {
      attempts++;
      await tx.query("level", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", []);
      await tx.query("snapshot", "SELECT count(*) FROM users", []);
      if (attempts < 2) await other.query("UPDATE users SET name = 'other' WHERE email = 'a@example.com'");
      await rename(tx, `sql attempt ${attempts}`);
      if (attempts < 3) throw conflict("on purpose");
      return attempts;
    });
    expect(result).toBe(3);
    expect(await db.prisma.user.count({ where: { name: "sql attempt 3" } })).toBe(1);
  });

  test("gives up after repeated conflicts with 503 and retryAfter", async () => {
    const error = await catchError(db.sqlTransaction(() => Promise.reject(conflict("again"))));
    expect(toServiceError(error)).toMatchObject({ status: 503, retryAfter: 1 });
  });

  test("sends no statement after BEGIN has failed, even if the work continues", async () => {
    const one = openWith({ poolSize: 1 });
    // Postgres rejects BEGIN in a failed transaction.
    const client = await one.pool.connect();
    await client.query("BEGIN");
    await catchError(client.query("SELECT 1/0"));
    client.release();
    const writing = one.sqlTransaction(async (tx) => {
      await tx.query("first", "SELECT 1", []).catch(() => {});
      await tx.query("write", "INSERT INTO users (email) VALUES ('autocommitted@example.com')", []);
    });
    expect(await catchError(writing)).toMatchObject({ code: "25P02" });
    expect(await one.prisma.user.count({ where: { email: "autocommitted@example.com" } })).toBe(0);
  });

  test("is rolled back if its work fails, and its connection is reused", async () => {
    const one = openWith({ poolSize: 1 });
    await catchError(
      one.sqlTransaction(async (tx) => {
        await rename(tx, "gone");
        throw new Error("on purpose");
      }),
    );
    await catchError(one.sqlTransaction((tx) => tx.query("wrong", "SELECT 1/0", [])));
    expect(await one.query("after", "SELECT count(*)::int AS n FROM users WHERE name = 'gone'", [])).toEqual([
      { n: 0 },
    ]);
    expect(one.pool.totalCount).toBe(1);
  });

  test("fails as unavailable if its connection is lost between two statements, and the pool recovers", async () => {
    const one = openWith({ poolSize: 1 });
    const error = await catchError(
      one.sqlTransaction(async (tx) => {
        const [row] = await tx.query<{ pid: number }>("pid", "SELECT pg_backend_pid() AS pid", []);
        await other.query("SELECT pg_terminate_backend($1)", [row?.pid]);
        await expect.poll(() => one.pool.totalCount === 1 && isGone(row?.pid ?? 0)).toBe(true);
        await rename(tx, "never");
      }),
    );
    expect(classify(error)).toBe("unavailable");
    expect(await one.query("one", "SELECT 1 AS one", [])).toEqual([{ one: 1 }]);
  });

  const isGone = async (pid: number) =>
    (await other.query("SELECT FROM pg_stat_activity WHERE pid = $1", [pid])).rows.length === 0;
});

describe("a session", () => {
  test("is in UTC whatever the database's time zone, with generic plans and timeouts", async () => {
    const shown = await db.query<{ name: string; setting: string }>(
      "settings",
      `SELECT name, setting FROM pg_settings WHERE name = ANY($1) ORDER BY name`,
      [
        [
          "TimeZone",
          "plan_cache_mode",
          "statement_timeout",
          "lock_timeout",
          "idle_in_transaction_session_timeout",
        ],
      ],
    );
    expect(Object.fromEntries(shown.map(({ name, setting }) => [name, setting]))).toEqual({
      TimeZone: "UTC",
      plan_cache_mode: "force_generic_plan",
      statement_timeout: "5000",
      lock_timeout: "4000",
      idle_in_transaction_session_timeout: "20000",
    });
    const { rows } = await other.query<{ TimeZone: string }>("SHOW timezone");
    expect(rows[0]?.TimeZone).not.toBe("UTC");
  });

  test("has its own settings even if `options` in the URL set them; other options apply", async () => {
    const url = new URL(database.url);
    url.searchParams.set("options", "-c timezone=Asia/Tokyo -c datestyle=German -c work_mem=3MB");
    const one = openWith({ url: url.href });
    const noon = "2027-03-04T12:00:00.000Z";
    expect(await one.query("noon", "SELECT $1::timestamptz AS noon", [noon])).toEqual([{ noon }]);
    const sql = "SELECT current_setting('TimeZone') AS zone, current_setting('work_mem') AS memory";
    expect(await one.query("both settings", sql, [])).toEqual([{ zone: "UTC", memory: "3MB" }]);
    expect(await one.prisma.$queryRawUnsafe(sql)).toEqual([{ zone: "UTC", memory: "3MB" }]);
  });

  test.each([
    ["2027-03-28T01:30:00.123Z", "2027-03-28T01:30:00.123Z"],
    ["2027-03-28T01:30:00Z", "2027-03-28T01:30:00.000Z"],
    ["2027-03-28T01:30:00.1Z", "2027-03-28T01:30:00.100Z"],
    ["1970-01-01T00:00:00.01Z", "1970-01-01T00:00:00.010Z"],
    ["9999-12-31T23:59:59.999+00:00", "9999-12-31T23:59:59.999Z"],
    ["2027-03-28T01:30:00.123456Z", "2027-03-28T01:30:00.123Z"],
  ])("reads %s in the format of the API", async (given, written) => {
    const sql = "SELECT $1::timestamptz AS one, NULL::timestamptz AS none";
    expect(await db.query("instant", sql, [given])).toEqual([{ one: written, none: null }]);
  });

  test("stores and reads the same instant through Prisma and SQL", async () => {
    const at = new Date("2027-03-28T01:30:00.123Z");
    const { id } = await db.prisma.user.create({ data: { email: "instant@example.com", createdAt: at } });
    const { rows } = await other.query(
      "SELECT (extract(epoch FROM created_at) * 1000)::bigint AS ms FROM users WHERE id = $1",
      [id],
    );
    expect(rows).toEqual([{ ms: String(at.getTime()) }]);
    expect(await db.prisma.user.findUnique({ where: { id } })).toMatchObject({ createdAt: at });
    const raw = await db.query("raw instant", "SELECT created_at FROM users WHERE id = $1", [id]);
    expect(raw).toEqual([{ created_at: at.toISOString() }]);
  });
});
