import type pg from "pg";
import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import { openDb, type Sql, type SqlTransaction } from "../../server/database/db.js";
import { classify, toServiceError } from "../../server/database/failures.js";
import { checkPrimary } from "../../server/database/primary.js";
import { ServiceError } from "../../server/errors.js";
import { keyAuthenticator } from "../../server/keys/authenticator.js";
import { openTestCore } from "../support/core.js";
import { createTestDatabase } from "../support/database.js";
import { asUser } from "../support/factories.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { catchError, LONG_TIMEOUTS, openClient, openTestDb } from "./open-test-db.js";

const { url } = await createTestDatabase();
const db = openDb({ DATABASE_URL: url, ...LONG_TIMEOUTS });
await db.prisma.user.create({ data: { email: "a@example.com" } });
afterAll(() => db.close());

/** A connection outside the pool. */
let other: pg.Client;

beforeEach(async () => {
  other = await openClient(url);
});

/** A pool of one connection. */
const openOne = () => openTestDb({ DATABASE_URL: url, DATABASE_POOL_SIZE: 1 });
const countUsers = (name: string, on = db) => on.prisma.user.count({ where: { name } });

describe("sqlTransaction()", () => {
  const rename = (tx: Sql, name: string) =>
    tx.query("rename", "UPDATE users SET name = $1 WHERE email = 'a@example.com' RETURNING name", [name]);

  test("is retried from the start after a conflict, and commits once", async () => {
    let attempts = 0;
    const result = await db.sqlTransaction(async (tx) => {
      attempts++;
      await tx.query("level", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", []);
      await tx.query("insert", "INSERT INTO users (email) VALUES ($1)", [`attempt${attempts}@example.com`]);
      if (attempts < 3) await other.query("UPDATE users SET name = name || 'x' WHERE email = 'a@example.com'");
      await rename(tx, `attempt ${attempts}`);
      return attempts;
    });
    expect(result).toBe(3);
    const created = await db.prisma.user.findMany({ where: { email: { startsWith: "attempt" } } });
    expect(created.map(({ email }) => email)).toEqual(["attempt3@example.com"]);
  });

  test("is not retried after other failures", async () => {
    for (const failing of [
      (tx: Sql) => tx.query("missing", "SELECT * FROM no_such_table", []),
      (tx: Sql) => tx.query("terminate", "SELECT pg_terminate_backend(pg_backend_pid())::text", []),
      () => Promise.reject(new ServiceError("RESOURCE_NOT_FOUND")),
    ]) {
      let attempts = 0;
      await catchError(
        db.sqlTransaction(async (tx) => {
          attempts++;
          await failing(tx);
        }),
      );
      expect(attempts).toBe(1);
    }
  });

  test("gives up after four attempts with 503 and retryAfter", async () => {
    let attempts = 0;
    const failing = db.sqlTransaction(() => {
      attempts++;
      return Promise.reject(Object.assign(new Error("again"), { code: "40001" }));
    });
    const error = await catchError(failing);
    expect(attempts).toBe(4);
    expect(toServiceError(error)).toMatchObject({ status: 503, retryAfter: expect.any(Number) });
  });

  test("sends no statement after BEGIN has failed, even if the work continues", async () => {
    const one = openOne();
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
    const one = openOne();
    await catchError(
      one.sqlTransaction(async (tx) => {
        await rename(tx, "gone");
        throw new Error("on purpose");
      }),
    );
    await catchError(one.sqlTransaction((tx) => tx.query("wrong", "SELECT 1/0", [])));
    expect(await countUsers("gone", one)).toBe(0);
    expect(one.pool.totalCount).toBe(1);
  });

  test("takes no statement after COMMIT was sent with the last ones", async () => {
    const result = await db.sqlTransaction(async (tx) => {
      const [renamed] = await Promise.all([rename(tx, "committed early"), tx.commit()]);
      expect(await catchError(rename(tx, "too late"))).toMatchObject({ message: /COMMIT/ });
      return renamed;
    });
    expect(result).toEqual([{ name: "committed early" }]);
    expect(await countUsers("committed early")).toBe(1);
  });

  test("writes nothing if a statement sent together with COMMIT fails, and its connection is reused", async () => {
    const one = openOne();
    for (const swallow of [false, true]) {
      const failing = one.sqlTransaction((tx) => {
        const wrong = tx.query("wrong", "SELECT 1/0", []);
        return Promise.all([rename(tx, "half"), swallow ? wrong.catch(() => []) : wrong, tx.commit()]);
      });
      expect(await catchError(failing)).toMatchObject({ code: "22012" });
    }
    expect(await countUsers("half", one)).toBe(0);
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
    expect(await countUsers("early attempt 3")).toBe(1);
  });

  /** Starts a transaction whose last statement, sent together with COMMIT, waits for `lock`. */
  const commitBehindLock = async (signal?: AbortSignal) => {
    const one = openOne();
    const lock = await holdLock({ db }, "SELECT FROM users WHERE email = 'a@example.com' FOR UPDATE");
    const work = async (tx: SqlTransaction) => {
      await tx.query("first", "SELECT 1", []);
      await Promise.all([rename(tx, "behind a lock"), tx.commit()]);
    };
    const outcome = one.sqlTransaction(work, signal).catch((error: unknown) => error);
    const [pid] = await waitForBlocked({ db }, 1);
    return { one, lock, outcome, pid };
  };

  test("writes nothing if its connection is lost while a statement sent together with COMMIT waits", async () => {
    const { one, lock, outcome, pid } = await commitBehindLock();
    await other.query("SELECT pg_terminate_backend($1)", [pid]);
    expect(classify(await outcome)).toBe("unavailable");
    await lock.commit();
    expect(await countUsers("behind a lock")).toBe(0);
    expect(await one.query("one", "SELECT 1 AS one", [])).toEqual([{ one: 1 }]);
  });

  test("commits if its signal aborts after COMMIT was sent", async () => {
    const deadline = new AbortController();
    const { lock, outcome } = await commitBehindLock(deadline.signal);
    deadline.abort(new Error("too late"));
    await lock.commit();
    expect(await outcome).toBeUndefined();
    expect(await countUsers("behind a lock")).toBe(1);
  });
});

describe("a session", () => {
  test("that a burst needed is kept for the next one", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const pooled = openTestDb({ DATABASE_URL: url });
      const useAll = () =>
        Promise.all(
          Array.from({ length: 4 }, () => pooled.query<{ pid: number }>("pid", "SELECT pg_backend_pid() AS pid", [])),
        );
      const pidsOf = (results: { pid: number }[][]) =>
        results
          .flat()
          .map(({ pid }) => pid)
          .sort();
      const before = pidsOf(await useAll());
      vi.advanceTimersByTime(3_600_000);
      expect(pidsOf(await useAll())).toEqual(before);
    } finally {
      vi.useRealTimers();
    }
  });

  test("is in UTC whatever the database's time zone, with generic plans and timeouts", async () => {
    const shown = await db.query<{ name: string; setting: string }>(
      "settings",
      "SELECT name, setting FROM pg_settings",
      [],
    );
    expect(Object.fromEntries(shown.map(({ name, setting }) => [name, setting]))).toMatchObject({
      TimeZone: "UTC",
      plan_cache_mode: "force_generic_plan",
      jit: "off",
      statement_timeout: "5000",
      lock_timeout: "4000",
      idle_in_transaction_session_timeout: "20000",
    });
    const { rows } = await other.query<{ TimeZone: string }>("SHOW timezone");
    expect(rows[0]?.TimeZone).not.toBe("UTC");
  });

  test("has its own settings even if `options` in the URL set them; other options apply", async () => {
    const target = new URL(url);
    target.searchParams.set("options", "-c timezone=Asia/Tokyo -c datestyle=German -c work_mem=3MB");
    const one = openTestDb({ DATABASE_URL: target.href });
    const noon = "2027-03-04T12:00:00.000Z";
    expect(await one.query("noon", "SELECT $1::timestamptz AS noon", [noon])).toEqual([{ noon }]);
    const sql = "SELECT current_setting('TimeZone') AS zone, current_setting('work_mem') AS memory";
    expect(await one.query("both settings", sql, [])).toEqual([{ zone: "UTC", memory: "3MB" }]);
    expect(await one.prisma.$queryRawUnsafe(sql)).toEqual([{ zone: "UTC", memory: "3MB" }]);
  });
});

test("behind a pooler, every statement that reads for an operation under /v1, for its key or for creates in flight fails on a standby", async () => {
  const { services, owner, makeKey } = await openTestCore();
  const { listingId } = owner;
  const { id } = await owner.addForm();
  const { key } = await makeKey(owner.userId);
  const query = vi.spyOn(services.db, "query");
  const { forms, listings } = asUser(services, owner.userId);
  await keyAuthenticator(services)(key);
  await forms.list({});
  await forms.list({ listingId });
  await forms.get({ id });
  await listings.list({});
  await listings.get({ id: listingId });
  await services.inFlightCreates.wait(new AbortController().signal);
  const texts = new Map(query.mock.calls.map(([name, text]) => [name, text]));
  expect([...texts.keys()].toSorted()).toEqual([
    "form",
    "forms",
    "forms-on-listing",
    "in-flight-creates",
    "key",
    "listing",
    "listings",
  ]);
  for (const [name, text] of texts)
    expect([name, checkPrimary(text)]).toEqual([name, expect.stringContaining("pg_current_wal_lsn")]);
});
