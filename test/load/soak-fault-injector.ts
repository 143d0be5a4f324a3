import { setTimeout as sleep } from "node:timers/promises";
import type { ExternalServer } from "../support/external-server.js";
import type { PostgresCluster, ShutdownSignal } from "../support/postgres-cluster.js";
import { runSql } from "../support/run-sql.js";
import type { ServiceProcess } from "../support/service-process.js";
import type { Traffic } from "../support/traffic.js";

const END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'guest-forms'";

/** What the injector breaks. */
interface Targets {
  cluster: PostgresCluster;
  /** The gateway to kill; the other one keeps running. */
  gateway: ServiceProcess;
  /** The worker to kill; the other one keeps running. */
  worker: ServiceProcess;
  /** Undefined if the soak did not start it. */
  redis: ExternalServer | undefined;
  traffic: Traffic;
}

/** An injected fault. Times are those of `performance.now()`. */
export interface InjectedFault {
  kind: string;
  startedAt: number;
  endedAt: number;
  /** When Postgres accepted connections again, if it was restarted. */
  acceptingAt?: number;
}

const SHUTDOWN_SIGNALS: ShutdownSignal[] = ["SIGINT", "SIGQUIT", "SIGKILL"];

/**
 * Injects faults in random order, one after the other, until stopped. Each fault is repaired before the next. `stop`
 * returns what was injected.
 */
export function startInjector({ gateway, worker, cluster, redis, traffic }: Targets, random: () => number) {
  const injected: InjectedFault[] = [];
  const stopping = new AbortController();
  const { signal } = stopping;
  const randomBetween = (min: number, max: number) => min + random() * (max - min);
  const pause = (min: number, max: number) => sleep(randomBetween(min, max));

  async function restart<Result>(target: { start(): Promise<Result> }, stop: () => Promise<unknown>): Promise<Result> {
    await stop();
    await pause(100, 2_000);
    return target.start();
  }

  async function freeze(): Promise<void> {
    cluster.freeze();
    await pause(1_000, 5_000);
    cluster.unfreeze();
  }

  function listKinds(): [string, () => Promise<unknown>][] {
    const shutdown = SHUTDOWN_SIGNALS[Math.floor(random() * SHUTDOWN_SIGNALS.length)] ?? "SIGQUIT";
    const kinds: [string, () => Promise<unknown>][] = [
      ["gateway killed", () => restart(gateway, () => gateway.kill())],
      ["gateway stopped", () => restart(gateway, () => gateway.stop())],
      ["worker killed", () => restart(worker, () => worker.kill())],
      ["worker stopped", () => restart(worker, () => worker.stop())],
      [`Postgres restarted (${shutdown})`, () => restart(cluster, () => cluster.stop(shutdown))],
      ["Postgres frozen", freeze],
      ["client connections closed", async () => traffic.closeConnections()],
      ["Postgres sessions terminated", async () => void (await runSql(cluster.url, END_SESSIONS))],
    ];
    if (redis) kinds.push(["Redis killed", () => restart(redis, () => redis.kill())]);
    return kinds;
  }

  async function run(): Promise<void> {
    // Every kind once in random order, then again, so that a short run has all kinds.
    while (!signal.aborted) {
      for (const [kind, inject] of inRandomOrder(listKinds(), random)) {
        await sleep(randomBetween(1_000, 4_000), undefined, { signal }).catch(() => {});
        if (signal.aborted) return;
        const startedAt = performance.now();
        const acceptingAt = await inject();
        const endedAt = performance.now();
        injected.push({ kind, startedAt, endedAt, ...(typeof acceptingAt === "number" && { acceptingAt }) });
      }
    }
  }

  const running = run();
  // `stop` reports a rejection. Without a handler until then, it would be an unhandled rejection.
  running.catch(() => {});
  return {
    async stop(): Promise<InjectedFault[]> {
      stopping.abort();
      await running;
      return injected;
    },
  };
}

const inRandomOrder = <Item>(items: Item[], random: () => number): Item[] =>
  items
    .map((item) => ({ item, at: random() }))
    .sort((one, other) => one.at - other.at)
    .map(({ item }) => item);
