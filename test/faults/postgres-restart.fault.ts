import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { slowestMs } from "../fleet/client.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcesses,
} from "../fleet/gateway-processes.js";
import { type RunningProcess, spawnCli } from "../harness.js";
import { mailEnv, startMailServer } from "../server/mail-server.js";
import { PostgresCluster, type ShutdownSignal } from "./postgres-cluster.js";
import { findViolations } from "./postgres-invariants.js";
import { countStatuses, seededRandom, Traffic } from "./postgres-traffic.js";
import { scaleRounds } from "./rounds.js";

const PER_SECOND = 200;
const SIGNALS: ShutdownSignal[] = ["SIGKILL", "SIGINT", "SIGQUIT", "SIGKILL", "SIGQUIT"];
const RESTARTS = SIGNALS.slice(0, scaleRounds(SIGNALS.length, 2));
const DOWN_MS = 1_000;
const MAX_RECOVERY_MS = 2_000;
/** Longer than the guarantee, to distinguish a slow recovery from none. */
const WAIT_TIMEOUT_MS = 15_000;
const SEED = 6;

let cluster: PostgresCluster;
let fixture: Fixture;
let gateways: GatewayProcess[];
let worker: RunningProcess;
let mailServer: Awaited<ReturnType<typeof startMailServer>>;

beforeAll(async () => {
  cluster = await PostgresCluster.create();
  await migrate(cluster.url);
  fixture = await makeFixture(cluster.url);
  gateways = await startGatewayProcesses(2, fixture.env);
  mailServer = await startMailServer();
  worker = spawnCli(["worker"], { env: { ...fixture.env, ...mailEnv(mailServer.url) } });
  await worker.waitForLine(/^Sending notifications/, 60_000);
});
afterAll(async () => {
  await Promise.all([...gateways.map(({ process }) => process.stopOrKill()), worker.stopOrKill()]);
  await mailServer.close();
  await cluster.remove();
});

it("restarting Postgres under load loses or duplicates no acknowledged write, and every gateway recovers within 2 s", async () => {
  const traffic = new Traffic({
    urls: gateways.map(({ url }) => url),
    key: fixture.key.key,
    listingIds: [fixture.listing.id],
    perSecond: PER_SECOND,
    mix: { create: 40, repeat: 5, update: 10, list: 10, fetch: 25, listing: 10 },
    random: seededRandom(SEED),
  });
  traffic.start();
  let slowestRecoveryMs = 0;
  for (const signal of RESTARTS) {
    await sleep(1_500);
    await cluster.stop(signal);
    await sleep(DOWN_MS);
    const acceptingAt = await cluster.start();
    const firstSuccess = (gateway: number) =>
      traffic.samples.find(
        (sample) => sample.gateway === gateway && sample.receivedAt > acceptingAt && sample.status < 300,
      );
    await expect
      .poll(() => gateways.every((_, gateway) => firstSuccess(gateway)), { timeout: WAIT_TIMEOUT_MS })
      .toBe(true);
    for (const gateway of gateways.keys()) {
      const first = firstSuccess(gateway);
      const recoveryMs = (first?.receivedAt ?? Number.POSITIVE_INFINITY) - acceptingAt;
      slowestRecoveryMs = Math.max(slowestRecoveryMs, recoveryMs);
    }
  }
  await traffic.stop();
  await traffic.retryUnacknowledged();
  traffic.close();
  const { forms, violations } = await findViolations(cluster.url, traffic.creates);
  const unavailable = traffic.samples.filter(({ status }) => status === 503).length;
  console.info(
    `Postgres restarted ${RESTARTS.length} times: ${traffic.samples.length} responses, ${unavailable} of them 503, ` +
      `slowest ${slowestMs(traffic.samples).toFixed()} ms; ${forms} forms of ${traffic.creates.length} creates; ` +
      `recovered within ${slowestRecoveryMs.toFixed()} ms; ${traffic.skippedRequests} requests skipped because the machine was busy`,
  );
  expect([...traffic.violations, ...violations]).toEqual([]);
  expect(slowestRecoveryMs, "ms to a gateway's first success").toBeLessThan(MAX_RECOVERY_MS);
  expect(Object.keys(countStatuses(traffic.samples)).sort()).toEqual(["200", "201", "503"]);
  expect(await countRunning([...gateways.map(({ process }) => process), worker])).toBe(3);
  await expect.poll(countPendingNotifications, { timeout: 60_000, interval: 250 }).toBe(0);
});

/** Counts the processes that have not exited. */
async function countRunning(processes: RunningProcess[]): Promise<number> {
  const running = processes.map(({ done }) => Promise.race([done.then(() => 0), sleep(50, 1)]));
  return (await Promise.all(running)).reduce((sum, count) => sum + count, 0);
}

async function countPendingNotifications(): Promise<number> {
  const { pool } = fixture.services.db;
  const { rows } = await pool.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM notifications WHERE state <> 'sent'",
  );
  return rows[0]?.n ?? -1;
}
