import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { openDb } from "../../server/db.js";
import { classify } from "../../server/failures.js";
import { createTestDatabase } from "../harness.js";

const PATIENT = { poolSize: 1, connectTimeoutMs: 5_000, statementTimeoutMs: 5_000, lockTimeoutMs: 4_000 };

/** The way to the database, which can hold back what comes from it, and then let it arrive as one piece. */
async function holdingWay(databaseUrl: string) {
  const target = new URL(databaseUrl);
  const held: Buffer[] = [];
  let isHolding = false;
  let near: Socket | undefined;
  const server = createServer((socket) => {
    near = socket;
    const far = connect(Number(target.port), target.hostname);
    socket.pipe(far);
    far.on("data", (chunk: Buffer) => (isHolding ? held.push(chunk) : socket.write(chunk)));
    for (const each of [socket, far]) each.on("error", () => {});
    socket.once("close", () => far.destroy());
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
      near?.write(Buffer.concat(held.splice(0)));
    },
    bytesHeld: () => held.reduce((sum, { length }) => sum + length, 0),
  };
}

test.each(["sqlTransaction", "transaction"] as const)(
  "a connection that ends just as it passes to the next in the queue ends no process (%s)",
  async (kind) => {
    const { url } = await createTestDatabase();
    const way = await holdingWay(url);
    const db = openDb({ url: way.url, ...PATIENT });
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    onTestFinished(() => other.end());
    await db.query("warm", "SELECT 1", []);
    way.hold();
    const first = db.query<{ n: number }>("answer", "SELECT 2 AS n", []);
    const next =
      kind === "transaction"
        ? db.transaction((tx) => tx.user.count())
        : db.sqlTransaction((tx) => tx.query("count", "SELECT count(*) FROM users", []));
    const failed = next.then(
      () => "fine",
      (error: unknown) => classify(error),
    );
    await expect.poll(way.bytesHeld).toBeGreaterThan(0);
    await expect.poll(() => db.pool.waitingCount).toBe(1);
    await sleep(100);
    const before = way.bytesHeld();
    await other.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    await expect.poll(way.bytesHeld).toBeGreaterThan(before);
    // The answer and the end of the connection now arrive together: nothing awaited comes in between.
    way.release();
    expect(await first).toEqual([{ n: 2 }]);
    // Whether it got that connection or another one.
    expect(["fine", "unavailable"]).toContain(await failed);
    await expect.poll(() => db.query("again", "SELECT 3 AS n", [])).toEqual([{ n: 3 }]);
    await db.close();
  },
);

test("a transaction whose answer is overdue is not left open for whoever gets its connection next", async () => {
  const { url } = await createTestDatabase();
  const way = await holdingWay(url);
  const db = openDb({
    url: way.url,
    poolSize: 1,
    connectTimeoutMs: 5_000,
    statementTimeoutMs: 300,
    lockTimeoutMs: 250,
  });
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  onTestFinished(() => other.end());
  await db.query("warm", "SELECT 1", []);
  const failure = await db
    .transaction(async (tx) => {
      way.hold();
      await tx.$executeRaw`INSERT INTO users (email) VALUES ('overdue@example.com')`;
    })
    .catch((error: unknown) => classify(error));
  expect(failure).toBe("unavailable");
  way.release();
  await db.query("insert", "INSERT INTO users (email) VALUES ('next@example.com')", []);
  const { rows } = await other.query("SELECT email FROM users");
  expect(rows).toEqual([{ email: "next@example.com" }]);
  await db.close();
});
