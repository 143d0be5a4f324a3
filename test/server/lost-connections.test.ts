import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { openDb } from "../../server/db.js";
import { classify } from "../../server/failures.js";
import { createTestDatabase } from "../support/database.js";
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
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const url = new URL(databaseUrl);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
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

test.each(["sqlTransaction", "transaction"] as const)(
  "a connection that closes while it is handed to the next caller in the queue does not crash the process (%s)",
  async (kind) => {
    const crashes: Error[] = [];
    const onCrash = (error: Error) => void crashes.push(error);
    process.on("uncaughtException", onCrash);
    onTestFinished(() => void process.off("uncaughtException", onCrash));
    const { url } = await createTestDatabase();
    const proxy = await startBufferingProxy(url);
    const db = openDb({ url: proxy.url, ...LONG_TIMEOUTS, poolSize: 1 });
    const other = await openClient(url);
    await db.query("warm", "SELECT 1", []);
    proxy.hold();
    const first = db.query<{ n: number }>("answer", "SELECT 2 AS n", []);
    const next =
      kind === "transaction"
        ? db.transaction((tx) => tx.user.count())
        : db.sqlTransaction((tx) => tx.query("count", "SELECT count(*) FROM users", []));
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
  },
);

test("a transaction whose response times out is not left open on its connection", async () => {
  const { url } = await createTestDatabase();
  const proxy = await startBufferingProxy(url);
  const db = openTestDb({ url: proxy.url, poolSize: 1, statementTimeoutMs: 300, lockTimeoutMs: 250 });
  const other = await openClient(url);
  await db.query("warm", "SELECT 1", []);
  const failure = await db
    .transaction(async (tx) => {
      proxy.hold();
      await tx.$executeRaw`INSERT INTO users (email) VALUES ('overdue@example.com')`;
    })
    .catch((error: unknown) => classify(error));
  expect(failure).toBe("unavailable");
  proxy.release();
  await db.query("insert", "INSERT INTO users (email) VALUES ('next@example.com')", []);
  const { rows } = await other.query("SELECT email FROM users");
  expect(rows).toEqual([{ email: "next@example.com" }]);
});

test("a statement on a connection that goes silent fails soon after the statement timeout, and the next one gets a new connection", async () => {
  const { url } = await createTestDatabase();
  const proxy = await TcpProxy.start(url);
  const db = openTestDb({ url: proxy.url, statementTimeoutMs: 500, poolSize: 1 });
  await db.query("warm", "SELECT 1", []);
  proxy.freeze();
  const started = performance.now();
  expect(classify(await catchError(db.query("silent", "SELECT 1", [])))).toBe("unavailable");
  expect(performance.now() - started).toBeLessThan(3_000);
  proxy.restore();
  expect(await db.query("answered", "SELECT 2 AS n", [])).toEqual([{ n: 2 }]);
});
