import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect, it } from "vitest";
import type { InstalledPostgres } from "../support/installed-postgres.js";
import { scale } from "../support/rounds.js";
import { runSql } from "../support/run-sql.js";
import { MAX_RESPONSE_MS } from "../support/service.js";
import { isSuccess } from "../support/traffic.js";
import { ReplicatedPostgres } from "./replicated-postgres.js";
import { startUnderTraffic } from "./service-under-traffic.js";

// One service and its traffic, on a primary with a synchronous standby behind HAProxy. Each test breaks one of the servers.

const ROUNDS = scale(2);
const PER_SECOND = 60;
/** HAProxy checks a server that it does not use about four times in this time. */
const WATCH_MS = 1_500;
const MAX_RECOVERY_MS = 2_000;
const STATEMENT_TIMEOUT_MS = 200;
const WRITES = ["create", "update"] as const;

const postgres = await ReplicatedPostgres.create();
const service = await startUnderTraffic(postgres.url, PER_SECOND);
const { traffic } = service;

/** Waits until every gateway has accepted a write after this time, and returns when. */
async function waitForWrites(since = performance.now()): Promise<number> {
  await expect.poll(() => traffic.servedAgainAt(since, WRITES)).toBeLessThan(Number.POSITIVE_INFINITY);
  return traffic.servedAgainAt(since, WRITES);
}

/** Waits until every gateway writes again and no request fails anymore: some may hold connections to a server that hangs. */
async function waitUntilAllSucceed(): Promise<void> {
  const since = await waitForWrites();
  const lastFailureAt = () =>
    traffic.samples.reduce((last, sample) => (isSuccess(sample) ? last : Math.max(last, sample.receivedAt)), since);
  await expect.poll(() => performance.now() - lastFailureAt()).toBeGreaterThan(MAX_RESPONSE_MS);
}

/** Asserts for some time that no request fails, and new connections get the primary, not the other server. */
async function expectUnused(server: InstalledPostgres): Promise<void> {
  const { port } = postgres.primary;
  const from = performance.now();
  while (performance.now() < from + WATCH_MS)
    expect(await runSql(postgres.url, "SELECT inet_server_port() AS port")).toEqual([{ port }]);
  await waitForWrites(from);
  expect(traffic.sentBetween(from).filter((sample) => !isSuccess(sample))).toEqual([]);
  // A commit that waits for a standby does not notice that its client is gone.
  const sessions = await server.query(
    `SELECT wait_event, state, query, backend_start, state_change, now() FROM pg_stat_activity
     WHERE application_name = 'guest-forms' AND wait_event IS DISTINCT FROM 'SyncRep'`,
  );
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
  await expect.poll(waiting).toContainEqual({ query: sql });
  // A timeout must not turn the waiting commit into an acknowledged one.
  await sleep(3 * STATEMENT_TIMEOUT_MS);
  await server.kill();
  expect(await write).toBe("lost");
}

it("if the primary is killed and the standby promoted, every gateway writes again within 2 s of the promotion, and every request is answered within 3 s", async () => {
  const recoveriesMs: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await sleep(WATCH_MS);
    await postgres.primary.kill();
    const promotedAt = await postgres.promoteStandby();
    recoveriesMs.push((await waitForWrites(promotedAt)) - promotedAt);
    await postgres.rebuildStandby();
  }
  console.info(`writes after the promotion: ${recoveriesMs.map(Math.round)} ms`);
  expect(Math.max(...recoveriesMs)).toBeLessThan(MAX_RECOVERY_MS);
  service.expectResponsesInTime(traffic.samples);
});

it("an old primary that was suspended while the standby was promoted acknowledges no write and gets no connection when it resumes, and every request is answered within 3 s", async () => {
  const old = postgres.primary;
  const resume = await old.suspend();
  await postgres.promoteStandby();
  await waitUntilAllSucceed();
  service.expectResponsesInTime(traffic.samples);
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
  process.kill(receiver?.pid ?? Number.NaN, "SIGSTOP");
  const isUsed = () =>
    runSql(postgres.url, "SELECT").then(
      () => true,
      () => false,
    );
  await expect.poll(isUsed, { timeout: 5_000, interval: 100 }).toBe(false);
  // It could still be read, and would return old data after a promotion of the standby.
  await expect.poll(() => isOpen, { timeout: 1_000 }).toBe(false);
  expect(await canCommit()).toEqual({ can_commit: false });
  process.kill(receiver?.pid ?? Number.NaN, "SIGCONT");
  await expect.poll(canCommit).toEqual({ can_commit: true });
  await waitUntilAllSucceed();
});

it("if the standby fails, writes get 503 with Retry-After, until the operator continues without it or it streams again", async () => {
  /** Kills the standby, and waits until neither gateway can write. */
  const killStandby = async () => {
    await postgres.standby.kill();
    const killedAt = performance.now();
    await service.waitUntilRejected("create", killedAt);
    service.expectNoCreates(killedAt);
  };
  await killStandby();
  await postgres.continueWithoutStandby();
  await waitUntilAllSucceed();
  await postgres.rebuildStandby();
  await killStandby();
  await postgres.standby.start();
  await waitUntilAllSucceed();
});

it("all these failures lose or duplicate no acknowledged form, exit no process, fail requests only with 503 and Retry-After, and every email is sent", () =>
  service.expectIntact());
