import type pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Db, openDb, type Sql, type SqlTransaction, type Transaction } from "../../server/db.js";
import { ServiceError } from "../../server/errors.js";
import { classify, toServiceError } from "../../server/failures.js";
import { createTestDatabase, type TestDatabase } from "../support/database.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { catchError, LONG_TIMEOUTS, openClient, openTestDb } from "./open-test-db.js";

let database: TestDatabase;
let db: Db;
/** A connection outside the pool. */
let other: pg.Client;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDb({ url: database.url, ...LONG_TIMEOUTS });
  await db.prisma.user.create({ data: { email: "a@example.com" } });
});

afterAll(() => db.close());

beforeEach(async () => {
  other = await openClient(database.url);
});

const conflict = (message: string) => Object.assign(new Error(message), { code: "40001" });

const renameA = (tx: Transaction, name: string) =>
  tx.user.update({ where: { email: "a@example.com" }, data: { name } });

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
    expect(toServiceError(error)).toMatchObject({ status: 503, retryAfter: expect.any(Number) });
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
    expect(toServiceError(error)).toMatchObject({ status: 503, retryAfter: expect.any(Number) });
  });

  test("sends no statement after BEGIN has failed, even if the work continues", async () => {
    const one = openTestDb({ url: database.url, poolSize: 1 });
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
    const one = openTestDb({ url: database.url, poolSize: 1 });
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

  test("takes no statement after COMMIT was sent with the last ones", async () => {
    const result = await db.sqlTransaction(async (tx) => {
      const [renamed] = await Promise.all([rename(tx, "committed early"), tx.commit()]);
      expect(await catchError(rename(tx, "too late"))).toMatchObject({ message: /COMMIT/ });
      return renamed;
    });
    expect(result).toEqual([{ name: "committed early" }]);
    expect(await db.prisma.user.count({ where: { name: "committed early" } })).toBe(1);
  });

  test("writes nothing if a statement sent together with COMMIT fails, and its connection is reused", async () => {
    const one = openTestDb({ url: database.url, poolSize: 1 });
    for (const swallow of [false, true]) {
      const failing = one.sqlTransaction((tx) => {
        const wrong = tx.query("wrong", "SELECT 1/0", []);
        return Promise.all([rename(tx, "half"), swallow ? wrong.catch(() => []) : wrong, tx.commit()]);
      });
      expect(await catchError(failing)).toMatchObject({ code: "22012" });
    }
    expect(await one.prisma.user.count({ where: { name: "half" } })).toBe(0);
    expect(one.pool.totalCount).toBe(1);
  });

  test("is retried after a conflict in a statement sent together with COMMIT, or in COMMIT itself, and commits once", async () => {
    await other.query(`
      CREATE FUNCTION reject_commit() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE SQLSTATE '40001'; END $$;
      CREATE CONSTRAINT TRIGGER reject_commit AFTER UPDATE ON users DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.name = 'early attempt 2') EXECUTE FUNCTION reject_commit()`);
    let attempts = 0;
    const result = await db.sqlTransaction(async (tx) => {
      attempts++;
      await tx.query("level", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", []);
      await tx.query("snapshot", "SELECT count(*) FROM users", []);
      if (attempts === 1) await other.query("UPDATE users SET name = 'other' WHERE email = 'a@example.com'");
      await Promise.all([rename(tx, `early attempt ${attempts}`), tx.commit()]);
      return attempts;
    });
    expect(result).toBe(3);
    expect(await db.prisma.user.count({ where: { name: "early attempt 3" } })).toBe(1);
  });

  /** Starts a transaction whose last statement, sent together with COMMIT, waits for `lock`. */
  const commitBehindLock = async (signal?: AbortSignal) => {
    const one = openTestDb({ url: database.url, poolSize: 1 });
    const lock = await holdLock({ db }, "SELECT FROM users WHERE email = 'a@example.com' FOR UPDATE");
    const work = async (tx: SqlTransaction) => {
      await tx.query("first", "SELECT 1", []);
      await Promise.all([rename(tx, "behind a lock"), tx.commit()]);
    };
    const outcome = one.sqlTransaction(work, signal).catch((error: unknown) => error);
    const [pid] = await waitForBlocked({ db }, 1);
    return { one, lock, outcome, pid };
  };
  const countBehindLock = () => db.prisma.user.count({ where: { name: "behind a lock" } });

  test("writes nothing if its connection is lost while a statement sent together with COMMIT waits", async () => {
    const { one, lock, outcome, pid } = await commitBehindLock();
    await other.query("SELECT pg_terminate_backend($1)", [pid]);
    expect(classify(await outcome)).toBe("unavailable");
    await lock.commit();
    expect(await countBehindLock()).toBe(0);
    expect(await one.query("one", "SELECT 1 AS one", [])).toEqual([{ one: 1 }]);
  });

  test("commits if its signal aborts after COMMIT was sent", async () => {
    const deadline = new AbortController();
    const { lock, outcome } = await commitBehindLock(deadline.signal);
    deadline.abort(new Error("too late"));
    await lock.commit();
    expect(await outcome).toBeUndefined();
    expect(await countBehindLock()).toBe(1);
  });

  test("fails as unavailable if its connection is lost between two statements, and the pool recovers", async () => {
    const one = openTestDb({ url: database.url, poolSize: 1 });
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
    const one = openTestDb({ url: url.href });
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
