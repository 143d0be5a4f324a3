import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import type { Services } from "../../server/access/context.js";
import { durationsOf, startConstantRateLoad } from "./constant-rate-load.js";
import type { TimedResponse } from "./http-client.js";
import { holdLock } from "./locks.js";
import { spawnNode } from "./processes.js";
import { quantile } from "./statistics.js";
import { countServed, makeTenant, type Seen, startNeighbor, type Tenant, warmUp } from "./tenants.js";

// What a key holder may do in one process while the requests of other key holders succeed. The service is a gateway at `url`, with
// default settings; `services` is another process on its database.

const FLOOD = join(packageRoot(), "test/support/flood.mjs");
/** Bound of the others' requests, at p99. */
export const MAX_P99_MS = 100;
const LOCKED_MS = 10_000;
const CREATES_PER_SECOND = 60;

interface NoisyWork<Result> {
  noisy: Tenant;
  neighbor: Tenant;
  /** Locks the listing of the noisy tenant. */
  work: () => Promise<Result>;
}

/** With the default limit per key holder, five use every connection of a pool of 10 at the same time. */
const POOL_USERS = 5;

/** Warms up the gateway with these tenants and others, so that every connection of its pool is open. */
async function warmUpPool(url: string, services: Services, tenants: Tenant[]): Promise<void> {
  const others = Array.from({ length: POOL_USERS - tenants.length }, () => makeTenant(services));
  await warmUp(url, [...tenants, ...(await Promise.all(others))]);
}

/** Runs `work` while the noisy tenant sends 60 creates per second to the listing, which succeed or get 503. */
export async function floodWhile<Result>(
  url: string,
  services: Services,
  { noisy, neighbor, work }: NoisyWork<Result>,
): Promise<{ result: Result; seen: Seen }> {
  await warmUpPool(url, services, [noisy, neighbor]);
  const traffic = await startNeighbor(url, services, neighbor);
  const creates: Promise<TimedResponse>[] = [];
  let isDone = false;
  const sending = (async () => {
    while (!isDone) {
      creates.push(noisy.create(url));
      await sleep(1000 / CREATES_PER_SECOND);
    }
  })();
  const result = await work().finally(() => {
    isDone = true;
  });
  await sending;
  creates.push(noisy.create(url));
  const served = countServed(await Promise.all(creates));
  const seen = await traffic.stop();
  console.info(`creates of the key holder got ${JSON.stringify(served)}`);
  expect(served[201]).toBeGreaterThan(0);
  return { result, seen };
}

/** The listing is locked for 10 s, as a change of its members locks it. */
export async function floodLockedListing(url: string, services: Services): Promise<Seen> {
  const [noisy, neighbor] = [await makeTenant(services), await makeTenant(services)];
  const work = async () => {
    const lock = await holdLock(services, "SELECT FROM listings WHERE id = $1 FOR UPDATE", [noisy.listingId]);
    await sleep(LOCKED_MS);
    await lock.commit();
  };
  return (await floodWhile(url, services, { noisy, neighbor, work })).seen;
}

interface Flood {
  path: string;
  count: number;
  /** Default: one. */
  bursts?: number;
  /** Default: all of a burst at once. */
  perSecond?: number;
  connections: number;
}

/** Sends requests of this tenant from another process. Asserts that each response is 200, or 503 with `Retry-After`. */
async function flood(url: string, { key }: Tenant, task: Flood) {
  const port = Number(new URL(url).port);
  const args = JSON.stringify({ bursts: 1, perSecond: null, ...task, port, key });
  const { stdout, stderr } = await spawnNode([FLOOD, args]).done;
  expect(stderr).toBe("");
  const { sent, statuses, withoutRetryAfter, fastestMs } = JSON.parse(stdout) as {
    sent: number;
    statuses: Record<string, number>;
    withoutRetryAfter: number;
    fastestMs: number;
  };
  const { 200: ok = 0, 503: unavailable = 0 } = statuses;
  expect({ answered: ok + unavailable, withoutRetryAfter }).toEqual({ answered: sent, withoutRetryAfter: 0 });
  return { sent, ok, fastestMs };
}

const LISTS = 200;
const BURSTS = 30;

/** A key holder sends 200 lists at once, again and again. Also returns how many got 503. */
export async function sendListsAtOnce(url: string, services: Services): Promise<Seen & { rejected: number }> {
  const [noisy, neighbor] = [await makeTenant(services), await makeTenant(services)];
  await warmUpPool(url, services, [noisy, neighbor]);
  const task = { path: "/v1/forms", count: LISTS, connections: LISTS };
  // Warm-up, also for many at once.
  await flood(url, noisy, { ...task, bursts: 5 });
  const traffic = await startNeighbor(url, services, neighbor);
  const { ok } = await flood(url, noisy, { ...task, bursts: BURSTS });
  return { ...(await traffic.stop()), rejected: LISTS * BURSTS - ok };
}

const OTHERS = 49;
const SATURATED_SECONDS = 20;
const MAX_SATURATED_P99_MS = 500;

/**
 * Requests are due at twice the rate that the process carries: one key holder sends 90 % of them, and 49 others the rest. The
 * key holder has as many connections as requests per second, so the rate lasts if responses take up to a second. The requests
 * are pages of 50 forms.
 */
export async function saturate(url: string, services: Services): Promise<void> {
  const noisy = await makeTenant(services);
  const others = await Promise.all(Array.from({ length: OTHERS }, () => makeTenant(services)));
  const path = "/v1/forms?limit=50";
  await warmUp(url, [noisy]);
  for (const other of others) for (let n = 0; n < 2; n++) await other.create(url);
  // No page waits for recent creates.
  await sleep(1000 * (services.settings.LIST_SETTLE_SECONDS + 1));
  const burst = 400;
  const { fastestMs } = await flood(url, noisy, { path, count: burst, bursts: 10, connections: 100 });
  const carried = (1000 * burst) / fastestMs;
  let next = 0;
  const traffic = startConstantRateLoad(0.2 * carried, () => {
    const other = others[next++ % OTHERS] as Tenant;
    return other.send(url, path);
  });
  const perSecond = 1.8 * carried;
  const count = Math.round(perSecond * SATURATED_SECONDS);
  const noise = await flood(url, noisy, { path, count, perSecond, connections: Math.ceil(perSecond) });
  const { requests, outcomes } = await traffic.stop();
  const timesMs = durationsOf(requests);
  const p99 = quantile(timesMs, 0.99);
  console.info(
    `the process carries ${carried.toFixed()} requests/s; of ${count} due at ${perSecond.toFixed()}/s by one key holder, ${noise.sent} were ` +
      `sent and ${noise.ok} served; ${timesMs.length} of ${OTHERS} others: median ${quantile(timesMs, 0.5).toFixed()} ms, p99 ${p99.toFixed()} ms`,
  );
  expect(noise.sent, "requests sent by the key holder at the intended rate").toBeGreaterThan(0.9 * count);
  expect(Object.fromEntries(outcomes)).toEqual({ 200: timesMs.length });
  expect(p99, "p99 of the others").toBeLessThan(MAX_SATURATED_P99_MS);
}
