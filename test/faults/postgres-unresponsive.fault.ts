import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { sendRequest } from "../support/http-client.js";
import { expectResponsesInTime, PostgresService } from "./postgres-service.js";
import type { Traffic } from "./postgres-traffic.js";
import { scaleRounds } from "./rounds.js";

const MAX_CONNECTIONS = 40;
const FROZEN_MS = 1_000 * scaleRounds(10, 5);
const EXHAUSTED_MS = 4_000;
const MAX_RECOVERY_MS = 5_000;

let service: PostgresService;
let traffic: Traffic;

beforeAll(async () => {
  service = await PostgresService.start({ cluster: { settings: { max_connections: `${MAX_CONNECTIONS}` } } });
  traffic = service.createTraffic({
    perSecond: 60,
    mix: { create: 30, repeat: 10, update: 15, list: 10, fetch: 25, listing: 10 },
    seed: 7,
  });
});

/** Asserts that every gateway recovers after the outage and that no guarantee was violated. */
async function expectRecovery(outage: string, startedAt: number, endedAt: number): Promise<void> {
  const recoveryMs = (await service.waitForSuccess(traffic, endedAt)) - endedAt;
  await sleep(1_000);
  await traffic.stop();
  const during = traffic.samples.filter(({ receivedAt }) => receivedAt > startedAt);
  await service.expectNoViolations(`${outage}; recovered after ${recoveryMs.toFixed()} ms`, traffic, during);
  expect(recoveryMs, "ms to a gateway's first success").toBeLessThan(MAX_RECOVERY_MS);
  const unavailable = during.filter(({ status, sentAt }) => status === 503 && sentAt < endedAt);
  expect(unavailable.length).toBeGreaterThan(20);
}

/** Asserts the status of /readyz on every gateway. */
async function expectReadiness(status: number): Promise<void> {
  const responses = await Promise.all(
    service.gateways.map(({ url }) => sendRequest(`${url}/readyz`, undefined)),
  );
  expect(responses.map((response) => response.status)).toEqual([status, status]);
  expectResponsesInTime(responses);
}

it("while Postgres hangs, every request gets a response within 3 s; afterwards the gateways recover and no acknowledged write is lost", async () => {
  traffic.start();
  await sleep(1_500);
  const startedAt = performance.now();
  onTestFinished(() => service.cluster.unfreeze());
  service.cluster.freeze();
  await sleep(FROZEN_MS - 3_000);
  await expectReadiness(503);
  await sleep(Math.max(0, startedAt + FROZEN_MS - performance.now()));
  const endedAt = performance.now();
  service.cluster.unfreeze();
  await expectRecovery(`Postgres frozen for ${FROZEN_MS / 1_000} s`, startedAt, endedAt);
});

it("while other clients use all connections, requests and /readyz get 503 within 3 s, and the gateways recover by themselves", async () => {
  traffic.start();
  await sleep(500);
  const startedAt = performance.now();
  const otherClients = await takeAllConnections();
  await sleep(EXHAUSTED_MS);
  await expectReadiness(503);
  const endedAt = performance.now();
  await Promise.all(otherClients.map((client) => client.end()));
  await expectRecovery("Postgres out of connections", startedAt, endedAt);
  await expectReadiness(200);
});

/** Also of sessions that are starting, which have no application name yet. */
const END_OTHER_SESSIONS = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND application_name <> 'others'`;

/** Takes every connection that Postgres allows, and terminates the sessions of the gateways. */
async function takeAllConnections(): Promise<pg.Client[]> {
  const taken: pg.Client[] = [];
  while (taken.length < MAX_CONNECTIONS) {
    const next = await tryConnect();
    if (next) taken.push(next);
    else await taken[0]?.query(END_OTHER_SESSIONS);
  }
  return taken;
}

const TOO_MANY_CONNECTIONS = "53300";

async function tryConnect(): Promise<pg.Client | undefined> {
  const client = new pg.Client({ connectionString: service.cluster.url, application_name: "others" });
  client.on("error", () => {});
  try {
    await client.connect();
    return client;
  } catch (error) {
    if ((error as pg.DatabaseError).code !== TOO_MANY_CONNECTIONS) throw error;
    return undefined;
  }
}
