import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { call } from "../fleet/client.js";
import { type Host, makeWorld, startHosts, type World } from "../fleet/fleet.js";
import { Cluster } from "./postgres-cluster.js";
import { findViolations } from "./postgres-invariants.js";
import { randomFrom, type Sample, slowestOf, statuses, Traffic } from "./postgres-traffic.js";
import { rounds } from "./rounds.js";

const FROZEN_MS = 1_000 * rounds(10, 5);
const EXHAUSTED_MS = 4_000;
const ANSWER_MS = 3_000;
const RECOVERED_MS = 5_000;
/** A machine that has no time for anybody is late too. */
const TIMED = { retry: 2 };
const MAX_CONNECTIONS = 40;

let cluster: Cluster;
let world: World;
let hosts: Host[];
let traffic: Traffic;

beforeAll(async () => {
  cluster = await Cluster.create({ settings: { max_connections: `${MAX_CONNECTIONS}` } });
  await migrate(cluster.url);
  world = await makeWorld(cluster.url);
  hosts = await startHosts(2, world.env);
  traffic = new Traffic({
    urls: hosts.map(({ url }) => url),
    key: world.key.key,
    listingIds: [world.listing.id],
    perSecond: 60,
    mix: { create: 30, repeat: 10, update: 15, list: 10, fetch: 25, listing: 10 },
    random: randomFrom(7),
  });
});
afterAll(async () => {
  traffic.close();
  await Promise.all(hosts.map(({ process }) => process.stopOrKill()));
  await cluster.remove();
});

/** Answers that came from `since` on. */
const from = (since: number) => traffic.samples.filter(({ cameAt }) => cameAt > since);

/** Holds what was answered since against the promises; and the way back. */
async function recovers(what: string, since: number, over: number): Promise<void> {
  await expect
    .poll(() => hosts.every((_, at) => from(over).some(isSuccess(at))), { timeout: RECOVERED_MS })
    .toBe(true);
  const back = Math.max(
    ...hosts.map((_, at) => (from(over).find(isSuccess(at))?.cameAt ?? Number.POSITIVE_INFINITY) - over),
  );
  await sleep(1_000);
  await traffic.stop();
  await traffic.settle();
  const found = await findViolations(cluster.url, traffic.entries);
  const slowest = slowestOf(from(since));
  const during = traffic.samples.filter(({ cameAt, sentAt }) => cameAt > since && sentAt < over);
  console.info(
    `${what}: ${during.length} answers meanwhile ${JSON.stringify(statuses(during))}, slowest ` +
      `${slowest.toFixed()} ms; back after ${back.toFixed()} ms; ${found.forms} forms of ` +
      `${traffic.entries.length} creates`,
  );
  expect([...traffic.violations, ...found.violations]).toEqual([]);
  expect(slowest, "milliseconds of the slowest answer").toBeLessThan(ANSWER_MS);
  expect(during.filter(({ status }) => status === 503).length).toBeGreaterThan(20);
}

const isSuccess = (at: number) => (one: Sample) => one.gateway === at && one.status < 300;

/** Each gateway's answer at /readyz, and the slowest one's milliseconds. */
async function readiness(): Promise<{ seen: number[]; slowest: number }> {
  const answers = await Promise.all(hosts.map(({ url }) => call(`${url}/readyz`, undefined)));
  return {
    seen: answers.map(({ status }) => status),
    slowest: Math.max(...answers.map(({ sentAt, cameAt }) => cameAt - sentAt)),
  };
}

it(
  "Postgres frozen, sessions and all: every request is answered within 3 s, and all is well when it thaws",
  TIMED,
  async () => {
    traffic.start();
    await sleep(1_500);
    const since = performance.now();
    cluster.freeze();
    await sleep(FROZEN_MS - 3_000);
    const { seen, slowest } = await readiness();
    expect(seen).toEqual([503, 503]);
    expect(slowest, "milliseconds of /readyz").toBeLessThan(ANSWER_MS);
    await sleep(Math.max(0, since + FROZEN_MS - performance.now()));
    const over = performance.now();
    cluster.thaw();
    await recovers(`Postgres frozen for ${FROZEN_MS / 1_000} s`, since, over);
  },
);

it(
  "all connections taken by others: 503 within 3 s, /readyz says so, and the gateways return by themselves",
  TIMED,
  async () => {
    traffic.start();
    await sleep(500);
    const since = performance.now();
    const others = await takeAll();
    await sleep(EXHAUSTED_MS);
    const { seen, slowest } = await readiness();
    expect(seen).toEqual([503, 503]);
    expect(slowest, "milliseconds of /readyz").toBeLessThan(ANSWER_MS);
    const over = performance.now();
    await Promise.all(others.map((other) => other.end()));
    await recovers("Postgres out of connections", since, over);
    expect((await readiness()).seen).toEqual([200, 200]);
  },
);

/** Connects until nobody else can, the gateways' own connections being ended. */
async function takeAll(): Promise<pg.Client[]> {
  const taken: pg.Client[] = [];
  for (let left = 1; left > 0; ) {
    for (let next = await connected(); next; next = await connected()) taken.push(next);
    const { rows } = await (taken[0] as pg.Client).query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE backend_type = 'client backend' AND application_name NOT IN ('others', 'guest-forms owner')`,
    );
    left = rows.length;
  }
  return taken;
}

const TOO_MANY_CONNECTIONS = "53300";

async function connected(): Promise<pg.Client | undefined> {
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
