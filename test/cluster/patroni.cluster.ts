import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { operatingBlock, runFromPage } from "../support/operating-page.js";
import { runSql } from "../support/run-sql.js";
import { MAX_RESPONSE_MS } from "../support/service.js";
import { quantile } from "../support/statistics.js";
import { isSuccess } from "../support/traffic.js";
import { startFollower, startKeyInUse, startReaderOfOwnWrites } from "./contract-watch.js";
import { LOOP_WAIT_MS, type Outage, repeat, TTL_MS } from "./outages.js";
import { PatroniCluster } from "./patroni-cluster.js";
import type { PatroniNode } from "./patroni-node.js";
import { startUnderTraffic } from "./service-under-traffic.js";

// One service and its traffic, on three nodes of Patroni behind HAProxy. Reads run on the synchronous standby. Each test is a fault,
// most of them of the leader. `repeat` allows 5 s more if by chance the asynchronous standby has to be rewound first.

const PER_SECOND = 40;
/** How long the leader commits before it fails without that its standbys get the WAL. */
const LAG_MS = 400;
/** How long reads are watched while the disk is full. */
const FULL_MS = 3_000;
const WRITES = ["create", "update"] as const;
const READS = ["fetch", "list"] as const;

const cluster = await PatroniCluster.create();
const service = await startUnderTraffic(cluster.url, PER_SECOND, { DATABASE_REPLICA_URL: cluster.standbyUrl });
const { traffic } = service;
const follower = startFollower(service);
const reader = await startReaderOfOwnWrites(service);

/** Waits until every gateway has answered a read and a write, sent after this time, with success. Returns when it had. */
async function waitUntilServed(since: number): Promise<number> {
  const servedAt = () => Math.max(traffic.servedAgainAt(since, WRITES), traffic.servedAgainAt(since, READS));
  await expect.poll(servedAt, { timeout: 60_000 }).toBeLessThan(Number.POSITIVE_INFINITY);
  return servedAt();
}

/** A fault that was injected at `failedAt`, and what ends it. */
interface Fault {
  failedAt: number;
  repair: () => unknown;
}

/**
 * Injects a fault of the leader, and asserts that another node takes over and serves, and that the revocation of a key just
 * before the fault, and of another one just after the promotion, take effect.
 */
async function failOver(inject: (leader: PatroniNode) => Promise<Fault>): Promise<Outage> {
  await cluster.waitUntilComplete();
  await cluster.waitUntilRead(await cluster.synchronousStandby());
  const leader = await cluster.leader();
  const other = await cluster.asynchronousStandby();
  const rewinds = await other.countRewinds();
  const [before, after] = [await startKeyInUse(service), await startKeyInUse(service)];
  await before.revoke();
  const { failedAt, repair } = await inject(leader);
  await cluster.leader(leader);
  const servedAt = await waitUntilServed(performance.now());
  const wasStandbyRewound = (await other.countRewinds()) > rewinds;
  await after.revoke();
  await repair();
  await before.expectRefused();
  await after.expectRefused();
  return { ms: servedAt - failedAt, wasStandbyRewound };
}

it("if Patroni and Postgres of the leader are killed while its standbys lag, another node serves within the TTL and 5 s", () =>
  repeat(cluster, "leader killed", () =>
    failOver(async (leader) => {
      const restore = leader.cutOffFromStandbys();
      await sleep(LAG_MS);
      const failedAt = performance.now();
      await leader.crash();
      restore();
      return { failedAt, repair: () => leader.restart() };
    }),
  ));

it("if the leader is killed when only the asynchronous standby has got its last WAL, the other one serves within the TTL and 10 s", () =>
  repeat(cluster, "leader killed, asynchronous standby ahead", () =>
    failOver(async (leader) => {
      const synchronous = await cluster.synchronousStandby();
      const asynchronous = await cluster.asynchronousStandby();
      await leader.suspendSender(synchronous);
      await sleep(LAG_MS);
      const failedAt = performance.now();
      await leader.crash();
      expect(await asynchronous.readReceivedBytes()).toBeGreaterThan(await synchronous.readReceivedBytes());
      return { failedAt, repair: () => leader.restart() };
    }),
  ));

it("if the machine of the leader fails, and etcd with it, another node serves within the TTL and 5 s", () =>
  repeat(cluster, "machine killed", () =>
    failOver(async (leader) => {
      const failedAt = performance.now();
      await Promise.all([leader.crashEtcd(), leader.crash()]);
      return { failedAt, repair: () => leader.restart() };
    }),
  ));

it("if Postgres of the leader crashes, another node serves within the TTL and 5 s", () =>
  repeat(cluster, "Postgres crashed", () =>
    failOver(async (leader) => {
      const failedAt = performance.now();
      await leader.crashPostgres();
      return { failedAt, repair: () => {} };
    }),
  ));

it("if the leader hangs, another node serves within the TTL and 5 s, and when it resumes, it acknowledges and returns nothing old", () =>
  repeat(cluster, "leader frozen", () =>
    failOver(async (leader) => ({ failedAt: performance.now(), repair: await leader.freeze() })),
  ));

it("if only Patroni of the leader hangs, HAProxy closes its connections before another node serves, within the TTL and 5 s, and Postgres of the old one acknowledges and returns nothing old", () =>
  repeat(cluster, "Patroni of the leader frozen", () =>
    failOver(async (leader) => {
      const idle = new pg.Client({ connectionString: cluster.url });
      let isOpen = true;
      idle.on("error", () => {
        isOpen = false;
      });
      await idle.connect();
      const failedAt = performance.now();
      const repair = leader.freezePatroni();
      await expect.poll(() => isOpen).toBe(false);
      expect(performance.now() - failedAt).toBeLessThan(TTL_MS - LOOP_WAIT_MS);
      return { failedAt, repair };
    }),
  ));

it("if the leader loses etcd, it steps down and another node serves within the TTL and 5 s", () =>
  repeat(cluster, "leader cut off from etcd", () =>
    failOver(async (leader) => {
      const failedAt = performance.now();
      const restore = leader.cutOffFromEtcd();
      const repair = async () => {
        expect(await leader.status()).toMatchObject({ role: "replica" });
        restore();
      };
      return { failedAt, repair };
    }),
  ));

it("a switchover under load fails requests only for seconds", () =>
  repeat(cluster, "switchover", () =>
    failOver(async () => {
      const failedAt = performance.now();
      await cluster.switchOver();
      return { failedAt, repair: () => {} };
    }),
  ));

it("if the synchronous standby hangs, writes succeed again within the TTL and 5 s with the other one, and port 5433 leads to it", () =>
  repeat(cluster, "synchronous standby frozen", async () => {
    await cluster.waitUntilComplete();
    const standby = await cluster.synchronousStandby();
    await cluster.expectStandby(standby);
    const failedAt = performance.now();
    const resume = await standby.freeze();
    const other = await cluster.synchronousStandby(standby);
    const servedAt = await waitUntilServed(performance.now());
    await cluster.expectStandby(other);
    await cluster.waitUntilRead(other);
    resume();
    return { ms: servedAt - failedAt };
  }));

it("if both standbys hang, nothing is acknowledged until one resumes", async () => {
  await cluster.waitUntilComplete();
  const leader = await cluster.leader();
  const standbys = cluster.nodes.filter((node) => node !== leader);
  const [resumeOne, resumeOther] = await Promise.all(standbys.map((node) => node.freeze()));
  try {
    const from = performance.now();
    await service.waitUntilRejected("create", from);
    service.expectNoCreates(from);
    resumeOne?.();
    await waitUntilServed(performance.now());
  } finally {
    resumeOne?.();
    resumeOther?.();
  }
});

it("if two members of etcd fail, the leader steps down, and requests get 503 until one is back", async () => {
  await cluster.waitUntilComplete();
  const [one, other] = cluster.nodes as [PatroniNode, PatroniNode];
  await Promise.all([one.crashEtcd(), other.crashEtcd()]);
  await service.waitUntilRejected("fetch", performance.now());
  one.restart();
  await waitUntilServed(performance.now());
  other.restart();
});

// Only root can mount a file system that is small enough to be filled.
const itWithDisk = it.runIf(process.getuid?.() === 0);

/** Fills the leader's disk, waits until neither gateway can create a form, and asserts for some time that reads succeed. */
async function fillDisk(leader: PatroniNode): Promise<void> {
  onTestFinished(async () => {
    await leader.freeDisk();
  });
  await leader.postponeCrash();
  const filledAt = performance.now();
  await leader.fillDisk();
  await service.waitUntilRejected("create", filledAt);
  const from = performance.now();
  await sleep(FULL_MS);
  const reads = traffic.sentBetween(from).filter(({ kind }) => ["fetch", "list", "listing"].includes(kind));
  expect(reads.length).toBeGreaterThan(10);
  expect(reads.filter((read) => !isSuccess(read))).toEqual([]);
}

itWithDisk(
  "if the leader's disk is full, reads go on and writes get 503, until a switchover to a node that has space",
  () =>
    repeat(cluster, "switchover with a full disk", () =>
      failOver(async (leader) => {
        await fillDisk(leader);
        const failedAt = performance.now();
        await cluster.switchOver();
        return { failedAt, repair: leader.freeDisk };
      }),
    ),
);

itWithDisk(
  "if the leader's disk is full and it needs another WAL file, it crashes while its standbys lag, and another node serves within the TTL and 5 s",
  () =>
    repeat(cluster, "no space for WAL", () =>
      failOver(async (leader) => {
        await fillDisk(leader);
        const restore = leader.cutOffFromStandbys();
        await leader.useUpWal();
        restore();
        return { failedAt: performance.now(), repair: leader.freeDisk };
      }),
    ),
);

it("a node copies the leader again on command, and no request fails meanwhile", async () => {
  await cluster.waitUntilComplete();
  const node = await cluster.asynchronousStandby();
  const startedAt = async () => (await node.status()).postmaster_start_time;
  const before = await startedAt();
  const from = performance.now();
  await cluster.copyLeaderTo(node);
  await expect.poll(startedAt).toSatisfy((at) => at !== undefined && at !== before);
  await cluster.waitUntilComplete();
  expect(traffic.sentBetween(from).filter((sample) => !isSuccess(sample))).toEqual([]);
});

it("backups are taken on its nodes, and restored beside the database, as on another server", async () => {
  await cluster.waitUntilComplete();
  const leader = await cluster.leader();
  const replaced = { "/var/backups": leader.postgres.folder, "2026-11-21": "$(date +%F)" };
  const run = (text: string, databaseUrl = cluster.url) =>
    runFromPage(operatingBlock(text), (script) => {
      const command = Object.entries(replaced).reduce((all, [from, to]) => all.replaceAll(from, to), script);
      return leader.run(`export DATABASE_URL='${databaseUrl}'\n${command}`);
    });
  await run("pg_basebackup --checkpoint");
  await run("pg_dump --format");
  await run("createdb --owner");
  const restored = new URL("/guest_forms_restored", cluster.url).href;
  await run("pg_restore --exit-on-error", restored);
  expect(await runSql(restored, "SELECT count(*) > 0 AS has FROM forms")).toEqual([{ has: true }]);
});

it("all these failures lose or duplicate no acknowledged form, skip none for a reader with a cursor, return no old data, exit no process, fail requests only with 503 and Retry-After, 99% of them within 3 s, and every email is sent", async () => {
  await cluster.waitUntilComplete();
  await waitUntilServed(performance.now());
  await cluster.waitUntilRead(await cluster.synchronousStandby());
  await reader.expectNothingStale();
  await service.expectIntact([service.fixture.listing.id]);
  await follower.expectComplete(cluster.url);
  const times = traffic.samples.map(({ sentAt, receivedAt }) => receivedAt - sentAt);
  expect(quantile(times, 0.99), "ms of all but the slowest 1%").toBeLessThan(MAX_RESPONSE_MS);
});
