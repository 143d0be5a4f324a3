import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { type Host, makeWorld, startHosts, type World } from "../fleet/fleet.js";
import { type RunningProcess, spawnCli } from "../harness.js";
import { mailEnv, startMailServer } from "../server/mail-server.js";
import { Cluster, type Ending } from "./postgres-cluster.js";
import { findViolations } from "./postgres-invariants.js";
import { randomFrom, slowestOf, statuses, Traffic } from "./postgres-traffic.js";
import { rounds } from "./rounds.js";

const PER_SECOND = 200;
const ENDINGS: Ending[] = ["SIGKILL", "SIGINT", "SIGQUIT", "SIGKILL", "SIGQUIT"];
const RESTARTS = ENDINGS.slice(0, rounds(ENDINGS.length, 2));
const DOWN_MS = 1_000;
const RECOVERED_MS = 2_000;
/** How long success is waited for: a gateway that is too slow is told apart from one that never returns. */
const PATIENCE_MS = 15_000;
const SEED = 6;

let cluster: Cluster;
let world: World;
let hosts: Host[];
let worker: RunningProcess;
let office: Awaited<ReturnType<typeof startMailServer>>;

beforeAll(async () => {
  cluster = await Cluster.create();
  await migrate(cluster.url);
  world = await makeWorld(cluster.url);
  hosts = await startHosts(2, world.env);
  office = await startMailServer();
  worker = spawnCli(["worker"], { env: { ...world.env, ...mailEnv(office.url) } });
  await worker.waitForLine(/^Sending notifications/, 60_000);
});
afterAll(async () => {
  await Promise.all([...hosts.map(({ process }) => process.stopOrKill()), worker.stopOrKill()]);
  await office.close();
  await cluster.remove();
});

it("Postgres restarted under load, 5 times in all: nothing acknowledged is lost, nothing is there twice, and service is back within 2 s", async () => {
  const traffic = new Traffic({
    urls: hosts.map(({ url }) => url),
    key: world.key.key,
    listingIds: [world.listing.id],
    perSecond: PER_SECOND,
    mix: { create: 40, repeat: 5, update: 10, list: 10, fetch: 25, listing: 10 },
    random: randomFrom(SEED),
  });
  traffic.start();
  let slowestReturn = 0;
  for (const how of RESTARTS) {
    await sleep(1_500);
    await cluster.end(how);
    await sleep(DOWN_MS);
    const accepting = await cluster.start();
    const firstOf = (gateway: number) =>
      traffic.samples.find((one) => one.gateway === gateway && one.cameAt > accepting && one.status < 300);
    await expect
      .poll(() => hosts.every((_, gateway) => firstOf(gateway)), { timeout: PATIENCE_MS })
      .toBe(true);
    for (const gateway of hosts.keys()) {
      const first = firstOf(gateway);
      const took = (first?.cameAt ?? Number.POSITIVE_INFINITY) - accepting;
      slowestReturn = Math.max(slowestReturn, took);
    }
  }
  await traffic.stop();
  await traffic.settle();
  traffic.close();
  const { forms, violations } = await findViolations(cluster.url, traffic.entries);
  const lost = traffic.samples.filter(({ status }) => status === 503).length;
  console.info(
    `Postgres restarted ${RESTARTS.length} times: ${traffic.samples.length} answers, ${lost} of them 503, ` +
      `slowest ${slowestOf(traffic.samples).toFixed()} ms; ${forms} forms of ${traffic.entries.length} creates; ` +
      `back within ${slowestReturn.toFixed()} ms; ${traffic.skipped} requests not made by a busy machine`,
  );
  expect([...traffic.violations, ...violations]).toEqual([]);
  expect(slowestReturn, "milliseconds to a gateway's first success").toBeLessThan(RECOVERED_MS);
  expect(Object.keys(statuses(traffic.samples)).sort()).toEqual(["200", "201", "503"]);
  expect(await runningOf([...hosts.map(({ process }) => process), worker])).toBe(3);
  await expect.poll(waitingJobs, { timeout: 60_000, interval: 250 }).toBe(0);
});

/** How many of the processes have not ended. */
async function runningOf(processes: RunningProcess[]): Promise<number> {
  const each = processes.map(({ done }) => Promise.race([done.then(() => 0), sleep(50, 1)]));
  return (await Promise.all(each)).reduce((sum, one) => sum + one, 0);
}

async function waitingJobs(): Promise<number> {
  const { pool } = world.services.db;
  const { rows } = await pool.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM notifications WHERE state <> 'sent'",
  );
  return rows[0]?.n ?? -1;
}
