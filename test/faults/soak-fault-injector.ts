import { setTimeout as sleep } from "node:timers/promises";
import type { ExternalServer } from "../support/external-server.js";
import type { PostgresCluster, ShutdownSignal } from "../support/postgres-cluster.js";
import { runSql } from "../support/run-sql.js";
import type { Traffic } from "./postgres-traffic.js";
import type { SoakProcess } from "./soak-process.js";

const END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'guest-forms'";

/** What the injector breaks. */
interface Targets {
  cluster: PostgresCluster;
  /** The gateway to kill; the other one keeps running. */
  gateway: SoakProcess;
  /** The worker to kill; the other one keeps running. */
  worker: SoakProcess;
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

/** Injects faults in random order, one after the other, until stopped. Each fault is repaired before the next. */
export class FaultInjector {
  readonly injected: InjectedFault[] = [];
  readonly #targets: Targets;
  readonly #random: () => number;
  #loop: Promise<void> = Promise.resolve();
  readonly #stopping = new AbortController();

  constructor(targets: Targets, random: () => number) {
    this.#targets = targets;
    this.#random = random;
  }

  start(): void {
    this.#loop = this.#run();
    // `stop` reports a rejection. Without a handler until then, it would be an unhandled rejection.
    this.#loop.catch(() => {});
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#loop;
  }

  async #run(): Promise<void> {
    // Every kind once in random order, then again, so that a short run has all kinds.
    while (!this.#stopping.signal.aborted) {
      for (const [kind, inject] of this.#shuffled(this.#kinds())) {
        await sleep(this.#randomBetween(1_000, 4_000), undefined, { signal: this.#stopping.signal }).catch(() => {});
        if (this.#stopping.signal.aborted) return;
        const startedAt = performance.now();
        const acceptingAt = await inject();
        const endedAt = performance.now();
        this.injected.push({ kind, startedAt, endedAt, ...(typeof acceptingAt === "number" && { acceptingAt }) });
      }
    }
  }

  #kinds(): [string, () => Promise<unknown>][] {
    const { gateway, worker, cluster, redis, traffic } = this.#targets;
    const signal = SHUTDOWN_SIGNALS[Math.floor(this.#random() * SHUTDOWN_SIGNALS.length)] ?? "SIGQUIT";
    const kinds: [string, () => Promise<unknown>][] = [
      ["gateway killed", () => this.#restart(gateway, () => gateway.stop("SIGKILL"))],
      ["gateway stopped", () => this.#restart(gateway, () => gateway.stop("SIGTERM"))],
      ["worker killed", () => this.#restart(worker, () => worker.stop("SIGKILL"))],
      [`Postgres restarted (${signal})`, () => this.#restart(cluster, () => cluster.stop(signal))],
      [
        "Postgres frozen",
        async () => {
          cluster.freeze();
          await this.#pause(1_000, 5_000);
          cluster.unfreeze();
        },
      ],
      ["client connections closed", async () => traffic.closeConnections()],
      ["Postgres sessions terminated", async () => void (await runSql(cluster.url, END_SESSIONS))],
    ];
    if (redis) kinds.push(["Redis killed", () => this.#restart(redis, () => redis.kill())]);
    return kinds;
  }

  async #restart<Result>(target: { start(): Promise<Result> }, stop: () => Promise<unknown>): Promise<Result> {
    await stop();
    await this.#pause(100, 2_000);
    return target.start();
  }

  #shuffled<Item>(items: Item[]): Item[] {
    return items
      .map((item) => ({ item, at: this.#random() }))
      .sort((one, other) => one.at - other.at)
      .map(({ item }) => item);
  }

  #pause = (min: number, max: number) => sleep(this.#randomBetween(min, max));
  #randomBetween = (min: number, max: number) => min + this.#random() * (max - min);
}
