import { connect, createServer, type Socket } from "node:net";
import type pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { openDb } from "../../server/database/db.js";
import { classify } from "../../server/database/failures.js";
import { startWorker } from "../../server/worker.js";
import { openTestCore } from "../support/core.js";
import { createTestDatabase } from "../support/database.js";
import { listEmails } from "../support/factories.js";
import { openMailServer, openServicesWithMail } from "../support/mail-server.js";
import { listenLocally } from "../support/network.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { catchError, LONG_TIMEOUTS, openClient, openTestDb } from "./open-test-db.js";

const READY_FOR_QUERY = Buffer.from("Z\0\0\0\x05I", "latin1");
/** Postgres's error code of a terminated session. */
const TERMINATED = "57P01";

/** Starts a proxy that can hold back what the database sends, and then deliver it in one write. */
async function startBufferingProxy(databaseUrl: string) {
  const target = new URL(databaseUrl);
  const held: Buffer[] = [];
  let isHolding = false;
  let client: Socket | undefined;
  const server = createServer((socket) => {
    client = socket;
    const database = connect(Number(target.port), target.hostname);
    socket.pipe(database);
    database.on("data", (chunk: Buffer) => (isHolding ? held.push(chunk) : socket.write(chunk)));
    for (const each of [socket, database]) each.on("error", () => {});
    socket.once("close", () => database.destroy());
  });
  const url = new URL(databaseUrl);
  url.host = `127.0.0.1:${await listenLocally(server)}`;
  onTestFinished(() => void server.close());
  return {
    url: url.href,
    hold: () => {
      isHolding = true;
    },
    release: () => {
      isHolding = false;
      client?.write(Buffer.concat(held.splice(0)));
    },
    /** Whether the last held message is ReadyForQuery, so a statement has ended. */
    holdsWholeResponse: () => Buffer.concat(held).subarray(-6).equals(READY_FOR_QUERY),
    holdsError: () => Buffer.concat(held).includes(TERMINATED),
  };
}

test("a connection that closes while it is handed to the next caller in the queue does not crash the process", async () => {
  const crashes: Error[] = [];
  const onCrash = (error: Error) => void crashes.push(error);
  process.on("uncaughtException", onCrash);
  onTestFinished(() => void process.off("uncaughtException", onCrash));
  const { url } = await createTestDatabase();
  const proxy = await startBufferingProxy(url);
  const db = openDb({ DATABASE_URL: proxy.url, ...LONG_TIMEOUTS, DATABASE_POOL_SIZE: 1 });
  const other = await openClient(url);
  await db.query("warm", "SELECT 1", []);
  proxy.hold();
  const first = db.query<{ n: number }>("answer", "SELECT 2 AS n", []);
  const next = db.sqlTransaction((tx) => tx.query("count", "SELECT count(*) FROM users", []));
  const outcome = next.then(
    () => "succeeded",
    (error: unknown) => classify(error),
  );
  await expect.poll(proxy.holdsWholeResponse).toBe(true);
  await expect.poll(() => db.pool.waitingCount).toBe(1);
  await other.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
  );
  await expect.poll(proxy.holdsError).toBe(true);
  // The response and the end of the connection arrive together, so no awaited code runs in between.
  proxy.release();
  expect(await first).toEqual([{ n: 2 }]);
  // It got either that connection or another one.
  expect(["succeeded", "unavailable"]).toContain(await outcome);
  expect(await db.query("again", "SELECT 3 AS n", [])).toEqual([{ n: 3 }]);
  await db.close();
  expect(crashes).toEqual([]);
});

test("a transaction whose response times out is not left open on its connection", async () => {
  const { url } = await createTestDatabase();
  const proxy = await startBufferingProxy(url);
  const db = openTestDb({
    DATABASE_URL: proxy.url,
    DATABASE_POOL_SIZE: 1,
    DATABASE_STATEMENT_TIMEOUT_MS: 1_000,
    DATABASE_LOCK_TIMEOUT_MS: 900,
  });
  const other = await openClient(url);
  await db.query("warm", "SELECT 1", []);
  const failure = await db
    .sqlTransaction(async (tx) => {
      await tx.query("first", "SELECT 1", []);
      proxy.hold();
      await tx.query("overdue", "INSERT INTO users (email) VALUES ('overdue@example.com')", []);
    })
    .catch((error: unknown) => classify(error));
  expect(failure).toBe("unavailable");
  proxy.release();
  await db.query("insert", "INSERT INTO users (email) VALUES ('next@example.com')", []);
  const { rows } = await other.query("SELECT email FROM users");
  expect(rows).toEqual([{ email: "next@example.com" }]);
});

test("a process suspended for longer than the statement timeout reads the response on the same connection", async () => {
  const { url } = await createTestDatabase();
  const db = openTestDb({ DATABASE_URL: url, DATABASE_STATEMENT_TIMEOUT_MS: 1_000, DATABASE_POOL_SIZE: 1 });
  const pid = () => db.query("pid", "SELECT pg_backend_pid() AS pid", []);
  const before = await pid();
  const observer = await openClient(url);
  const sleeping = db.query("sleep", "SELECT pg_sleep(0.6)::text AS slept", []);
  await waitForActive(observer);
  // Neither the response nor a timer is handled meanwhile.
  for (const began = performance.now(); performance.now() - began < 3_000; );
  expect(await sleeping).toHaveLength(1);
  expect(await pid()).toEqual(before);
});

/** Waits until a statement has reached the database. */
async function waitForActive(observer: pg.Client): Promise<void> {
  const active = "SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'";
  await expect.poll(async () => (await observer.query(active)).rowCount, { interval: 5 }).toBe(1);
}

test("a statement on a connection that goes silent fails soon after the statement timeout, and the next one gets a new connection", async () => {
  const { url } = await createTestDatabase();
  const proxy = await TcpProxy.start(url);
  const db = openTestDb({ DATABASE_URL: proxy.url, DATABASE_STATEMENT_TIMEOUT_MS: 1_000, DATABASE_POOL_SIZE: 1 });
  await db.query("warm", "SELECT 1", []);
  proxy.freeze();
  const started = performance.now();
  expect(classify(await catchError(db.query("silent", "SELECT 1", [])))).toBe("unavailable");
  expect(performance.now() - started).toBeLessThan(3_000);
  proxy.restore();
  expect(await db.query("answered", "SELECT 2 AS n", [])).toEqual([{ n: 2 }]);
});

describe("a worker", async () => {
  const ROUNDS = 4;
  const log = { info() {}, warn() {}, error() {} };

  const { services, owner } = await openTestCore();
  let observer: pg.Client;

  beforeEach(async () => {
    observer = await openClient(services.db.url);
  });

  const OTHER_BACKENDS =
    "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";

  async function otherBackends(): Promise<number[]> {
    const { rows } = await observer.query<{ pid: number }>(`SELECT pid ${OTHER_BACKENDS}`);
    return rows.map(({ pid }) => pid);
  }

  test("a stopped worker leaves no connections open, and terminating its backends right after causes no uncaught exception", async () => {
    const uncaught: unknown[] = [];
    const recordError = (error: unknown) => void uncaught.push(error);
    process.on("uncaughtException", recordError);
    onTestFinished(() => void process.off("uncaughtException", recordError));
    for (let round = 0; round < ROUNDS; round++) {
      const before = new Set(await otherBackends());
      const worker = await startWorker(services, log);
      expect(
        (await otherBackends()).some((pid) => !before.has(pid)),
        "it has its own connections",
      ).toBe(true);
      await worker.stop();
      const left = (await otherBackends()).filter((pid) => !before.has(pid));
      await observer.query(`SELECT pg_terminate_backend(pid) ${OTHER_BACKENDS}`);
      expect(left, `connections after stop, round ${round}`).toEqual([]);
    }
    await expect.poll(otherBackends).toEqual([]);
    expect(uncaught).toEqual([]);
  });

  test("a running worker keeps sending after it loses all its connections", { timeout: 120_000 }, async () => {
    const mailServer = await openMailServer();
    const worker = await startWorker(await openServicesWithMail(services, mailServer.url), log);
    onTestFinished(() => worker.stop());
    for (let round = 0; round < 3; round++) {
      await observer.query(`SELECT pg_terminate_backend(pid) ${OTHER_BACKENDS}`);
      await expect.poll(async () => (await otherBackends()).length).toBeGreaterThan(0);
    }
    await owner.create(owner.body);
    // Takes up to a minute if a lost connection had claimed it.
    await expect.poll(() => listEmails(services), { timeout: 70_000 }).toEqual([]);
  });
});
