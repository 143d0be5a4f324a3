import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { sendRequest, slowestMs } from "../fleet/client.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcesses,
} from "../fleet/gateway-processes.js";
import { PostgresCluster } from "./postgres-cluster.js";
import { findViolations } from "./postgres-invariants.js";
import { countStatuses, type ResponseSample, seededRandom, Traffic } from "./postgres-traffic.js";
import { scaleRounds } from "./rounds.js";

const FROZEN_MS = 1_000 * scaleRounds(10, 5);
const EXHAUSTED_MS = 4_000;
const MAX_RESPONSE_MS = 3_000;
const MAX_RECOVERY_MS = 5_000;
const MAX_CONNECTIONS = 40;

let cluster: PostgresCluster;
let fixture: Fixture;
let gateways: GatewayProcess[];
let traffic: Traffic;

beforeAll(async () => {
  cluster = await PostgresCluster.create({ settings: { max_connections: `${MAX_CONNECTIONS}` } });
  await migrate(cluster.url);
  fixture = await makeFixture(cluster.url);
  gateways = await startGatewayProcesses(2, fixture.env);
  traffic = new Traffic({
    urls: gateways.map(({ url }) => url),
    key: fixture.key.key,
    listingIds: [fixture.listing.id],
    perSecond: 60,
    mix: { create: 30, repeat: 10, update: 15, list: 10, fetch: 25, listing: 10 },
    random: seededRandom(7),
  });
});
afterAll(async () => {
  traffic.close();
  await Promise.all(gateways.map(({ process }) => process.stopOrKill()));
  await cluster.remove();
});

const samplesSince = (since: number) => traffic.samples.filter(({ receivedAt }) => receivedAt > since);

/** Asserts that every gateway recovers after the outage and that no guarantee was violated. */
async function expectRecovery(outage: string, startedAt: number, endedAt: number): Promise<void> {
  await expect
    .poll(() => gateways.every((_, index) => samplesSince(endedAt).some(isSuccess(index))), {
      timeout: MAX_RECOVERY_MS,
    })
    .toBe(true);
  const recoveryMs = Math.max(
    ...gateways.map(
      (_, index) =>
        (samplesSince(endedAt).find(isSuccess(index))?.receivedAt ?? Number.POSITIVE_INFINITY) - endedAt,
    ),
  );
  await sleep(1_000);
  await traffic.stop();
  await traffic.retryUnacknowledged();
  const found = await findViolations(cluster.url, traffic.creates);
  const slowest = slowestMs(samplesSince(startedAt));
  const during = traffic.samples.filter(
    ({ receivedAt, sentAt }) => receivedAt > startedAt && sentAt < endedAt,
  );
  console.info(
    `${outage}: ${during.length} responses meanwhile ${JSON.stringify(countStatuses(during))}, slowest ` +
      `${slowest.toFixed()} ms; recovered after ${recoveryMs.toFixed()} ms; ${found.forms} forms of ` +
      `${traffic.creates.length} creates`,
  );
  expect([...traffic.violations, ...found.violations]).toEqual([]);
  expect(slowest, "slowest response in ms").toBeLessThan(MAX_RESPONSE_MS);
  expect(during.filter(({ status }) => status === 503).length).toBeGreaterThan(20);
}

const isSuccess = (gateway: number) => (sample: ResponseSample) =>
  sample.gateway === gateway && sample.status < 300;

/** Requests /readyz of every gateway; returns the statuses and the slowest response in milliseconds. */
async function checkReadiness(): Promise<{ statuses: number[]; slowestReadyzMs: number }> {
  const responses = await Promise.all(gateways.map(({ url }) => sendRequest(`${url}/readyz`, undefined)));
  return {
    statuses: responses.map(({ status }) => status),
    slowestReadyzMs: slowestMs(responses),
  };
}

it("while Postgres hangs, every request gets a response within 3 s; afterwards the gateways recover and no acknowledged write is lost", async () => {
  traffic.start();
  await sleep(1_500);
  const startedAt = performance.now();
  cluster.freeze();
  await sleep(FROZEN_MS - 3_000);
  const { statuses, slowestReadyzMs } = await checkReadiness();
  expect(statuses).toEqual([503, 503]);
  expect(slowestReadyzMs, "slowest /readyz in ms").toBeLessThan(MAX_RESPONSE_MS);
  await sleep(Math.max(0, startedAt + FROZEN_MS - performance.now()));
  const endedAt = performance.now();
  cluster.unfreeze();
  await expectRecovery(`Postgres frozen for ${FROZEN_MS / 1_000} s`, startedAt, endedAt);
});

it("while other clients use all connections, requests and /readyz get 503 within 3 s, and the gateways recover by themselves", async () => {
  traffic.start();
  await sleep(500);
  const startedAt = performance.now();
  const otherClients = await takeAllConnections();
  await sleep(EXHAUSTED_MS);
  const { statuses, slowestReadyzMs } = await checkReadiness();
  expect(statuses).toEqual([503, 503]);
  expect(slowestReadyzMs, "slowest /readyz in ms").toBeLessThan(MAX_RESPONSE_MS);
  const endedAt = performance.now();
  await Promise.all(otherClients.map((client) => client.end()));
  await expectRecovery("Postgres out of connections", startedAt, endedAt);
  expect((await checkReadiness()).statuses).toEqual([200, 200]);
});

/** Opens connections until none is left, and terminates those of the gateways. */
async function takeAllConnections(): Promise<pg.Client[]> {
  const taken: pg.Client[] = [];
  for (let left = 1; left > 0; ) {
    for (let next = await tryConnect(); next; next = await tryConnect()) taken.push(next);
    const { rows } = await (taken[0] as pg.Client).query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE backend_type = 'client backend' AND application_name NOT IN ('others', 'guest-forms owner')`,
    );
    left = rows.length;
  }
  return taken;
}

const TOO_MANY_CONNECTIONS = "53300";

async function tryConnect(): Promise<pg.Client | undefined> {
  const client = new pg.Client({ connectionString: cluster.url, application_name: "others" });
  client.on("error", () => {});
  try {
    await client.connect();
    return client;
  } catch (error) {
    if ((error as pg.DatabaseError).code !== TOO_MANY_CONNECTIONS) throw error;
    return undefined;
  }
}
