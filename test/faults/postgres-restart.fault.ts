import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import type { ShutdownSignal } from "../support/postgres-cluster.js";
import { countPendingNotifications } from "./emails.js";
import { PostgresService } from "./postgres-service.js";
import { countStatuses } from "./postgres-traffic.js";
import { scaleRounds } from "./rounds.js";

const PER_SECOND = 200;
/** The load that must have been sent, also while Postgres is down. */
const MIN_PER_SECOND = 0.95 * PER_SECOND;
const SIGNALS: ShutdownSignal[] = ["SIGKILL", "SIGINT", "SIGQUIT", "SIGKILL", "SIGQUIT"];
const RESTARTS = SIGNALS.slice(0, scaleRounds(SIGNALS.length, 2));
const DOWN_MS = 1_000;
const MAX_RECOVERY_MS = 2_000;

let service: PostgresService;
beforeAll(async () => {
  service = await PostgresService.start();
  await service.startWorker();
});

it("restarting Postgres under a load of 200 requests per second loses or duplicates no acknowledged write, and every gateway recovers within 2 s", async () => {
  const { cluster } = service;
  const traffic = service.createTraffic({
    perSecond: PER_SECOND,
    mix: { create: 40, repeat: 5, update: 10, list: 10, fetch: 25, listing: 10 },
    seed: 6,
  });
  traffic.start();
  const recoveriesMs: number[] = [];
  const rates: number[] = [];
  for (const signal of RESTARTS) {
    await sleep(1_500);
    const stoppedAt = performance.now();
    await cluster.stop(signal);
    await sleep(DOWN_MS);
    const acceptingAt = await cluster.start();
    recoveriesMs.push((await service.waitForSuccess(traffic, acceptingAt)) - acceptingAt);
    rates.push(traffic.sentPerSecond(stoppedAt, performance.now()));
  }
  await service.expectNoViolations(`Postgres restarted ${RESTARTS.length} times`, traffic, traffic.samples);
  console.info(
    `recovered after ${recoveriesMs.map(Math.round)} ms; ${rates.map(Math.round)} requests per second sent during the restarts`,
  );
  expect(Math.max(...recoveriesMs), "ms until every gateway succeeds").toBeLessThan(MAX_RECOVERY_MS);
  expect(Math.min(...rates), "requests per second during a restart").toBeGreaterThan(MIN_PER_SECOND);
  expect(Object.keys(countStatuses(traffic.samples)).sort()).toEqual(["200", "201", "503"]);
  service.expectNoExits();
  await expect.poll(() => countPendingNotifications(service.fixture), { timeout: 60_000 }).toBe(0);
});
