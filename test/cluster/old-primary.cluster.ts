import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect, it } from "vitest";
import { type Create, sendCreate, uniqueCreate } from "../support/creates.js";
import type { TimedResponse } from "../support/http-client.js";
import type { InstalledPostgres } from "../support/installed-postgres.js";
import { runCli } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";
import { startPostgresService } from "../support/service.js";
import { describeInvalidResponse } from "../support/traffic.js";
import { ReplicatedPostgres } from "./replicated-postgres.js";

/** HAProxy checks a server that it does not use about four times in this time. */
const WATCH_MS = 1_500;
const STATEMENT_TIMEOUT_MS = 200;

const postgres = await ReplicatedPostgres.create();
const service = await startPostgresService(postgres.url);

const newCreate = () => uniqueCreate(service.fixture);
const send = (create: Create, gateway = 0): Promise<TimedResponse> =>
  sendCreate(service.fixture, service.gateway(gateway), create);

/** Sends a create to each gateway until it is accepted. */
async function expectWritable(): Promise<void> {
  for (const gateway of [0, 1]) {
    const create = newCreate();
    await expect.poll(async () => (await send(create, gateway)).status).toBe(201);
  }
}

/** Asserts for some time that all creates are accepted and new connections get the primary, not the other server. */
async function expectUnused(server: InstalledPostgres): Promise<void> {
  const { port } = postgres.primary;
  for (const until = performance.now() + WATCH_MS; performance.now() < until; ) {
    expect(await runSql(postgres.url, "SELECT inet_server_port() AS port")).toEqual([{ port }]);
    expect((await send(newCreate())).status).toBe(201);
    expect((await send(newCreate(), 1)).status).toBe(201);
  }
  const sessions = await server.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'guest-forms'");
  expect(sessions).toEqual([]);
}

let writes = 0;

/** Asserts that a write directly on this server, which is not read-only, is never acknowledged. */
async function expectNoCommit(server: InstalledPostgres): Promise<void> {
  expect(await server.query("SELECT pg_is_in_recovery() AS standby, can_commit()")).toEqual([
    { standby: false, can_commit: false },
  ]);
  const sql = `BEGIN; CREATE TABLE write_${++writes} (); COMMIT`;
  const write = runSql(`${server.url()}?options=-c%20statement_timeout%3D${STATEMENT_TIMEOUT_MS}`, sql).then(
    () => "acknowledged",
    () => "lost",
  );
  const waiting = () => server.query("SELECT query FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
  await expect.poll(waiting).toEqual([{ query: sql }]);
  // A timeout must not turn the waiting commit into an acknowledged one.
  await sleep(3 * STATEMENT_TIMEOUT_MS);
  await server.kill();
  expect(await write).toBe("lost");
}

it("no gateway and no worker starts on the standby", async () => {
  const { env } = service.fixture;
  const DATABASE_URL = postgres.standby.url();
  for (const command of ["serve", "worker"]) {
    const { stderr, code } = await runCli([command], { env: { ...env, PORT: "0", DATABASE_URL } });
    expect([command, code]).toEqual([command, 1]);
    expect(stderr).toMatch(/ is a standby: set DATABASE_URL to the primary\./);
  }
});

it("an old primary that was suspended while the standby was promoted acknowledges no write and gets no connection when it resumes", async () => {
  await expectWritable();
  const old = postgres.primary;
  const resume = await old.suspend();
  await postgres.promoteStandby();
  await expectWritable();
  resume();
  await expectUnused(old);
  await expectNoCommit(old);
});

it("a killed primary that starts again after the promotion acknowledges no write and gets no connection", async () => {
  const old = postgres.standby;
  await old.start();
  await expectUnused(old);
  await expectNoCommit(old);
  await postgres.rebuildStandby();
  await expectWritable();
});

it("a primary that loses the network to its standby has no open connection and gets no new one after 5 s, and is used again when the network is back", async () => {
  const idle = new pg.Client({ connectionString: postgres.url });
  let isOpen = true;
  idle.on("error", () => {
    isOpen = false;
  });
  await idle.connect();
  const [receiver] = await postgres.standby.query<{ pid: number }>("SELECT pid FROM pg_stat_wal_receiver");
  const canCommit = async () => (await postgres.primary.query("SELECT can_commit()"))[0];
  expect(await canCommit()).toEqual({ can_commit: true });
  // To the primary, a suspended receiver is one that it cannot reach.
  process.kill(receiver?.pid ?? 0, "SIGSTOP");
  const isUsed = () =>
    runSql(postgres.url, "SELECT").then(
      () => true,
      () => false,
    );
  await expect.poll(isUsed, { timeout: 5_000, interval: 100 }).toBe(false);
  // It could still be read, and would return old data after a promotion of the standby.
  await expect.poll(() => isOpen, { timeout: 1_000 }).toBe(false);
  expect(await canCommit()).toEqual({ can_commit: false });
  process.kill(receiver?.pid ?? 0, "SIGCONT");
  await expect.poll(canCommit).toEqual({ can_commit: true });
  await expectWritable();
});

it("if the standby fails, requests get 503 with Retry-After and nothing is lost, until the operator continues without it or it streams again", async () => {
  const creates = Array.from({ length: 6 }, newCreate);
  await postgres.standby.kill();
  const first = await Promise.all(creates.map((create, n) => send(create, n)));
  expect(first.map(({ status }) => status)).toEqual(Array(6).fill(503));
  expect(first.flatMap((response) => describeInvalidResponse(response) ?? [])).toEqual([]);
  await postgres.continueWithoutStandby();
  await expectWritable();
  for (const [n, create] of creates.entries()) expect((await send(create, n)).status).toBe(201);
  await postgres.rebuildStandby();
  await postgres.standby.kill();
  await expect.poll(async () => (await send(newCreate())).status).toBe(503);
  await postgres.standby.start();
  await expectWritable();
  const stored = "SELECT count(*)::int AS n FROM idempotency_keys WHERE key = ANY($1)";
  const keys = creates.map(({ key = "" }) => key);
  expect(await runSql(postgres.url, stored, [keys])).toEqual([{ n: creates.length }]);
  service.expectNoExits();
});
