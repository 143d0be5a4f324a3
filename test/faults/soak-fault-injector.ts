import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { PostgresCluster, ShutdownSignal } from "./postgres-cluster.js";
import type { Traffic } from "./postgres-traffic.js";
import type { ManagedProcess } from "./soak-processes.js";

/** What the injector breaks. */
export interface Targets {
  cluster: PostgresCluster;
  /** The gateway to kill; the other one keeps running. */
  gateway: ManagedProcess;
  worker: ManagedProcess;
  /** Undefined if the soak did not start it. */
  redis: ManagedProcess | undefined;
  traffic: Traffic;
}

/** An injected fault. Times are seconds since the start of the soak. */
export interface InjectedFault {
  kind: string;
  startedAt: number;
  endedAt: number;
}

const SHUTDOWN_SIGNALS: ShutdownSignal[] = ["SIGINT", "SIGQUIT", "SIGKILL"];

/** Injects faults in random order, one after the other, until stopped. Each fault is repaired before the next. */
export class FaultInjector {
  readonly injected: InjectedFault[] = [];
  readonly #targets: Targets;
  readonly #random: () => number;
  readonly #startedAt: number;
  readonly #log: (line: string) => void;
  #loop: Promise<void> = Promise.resolve();
  readonly #stopping = new AbortController();

  constructor(targets: Targets, random: () => number, startedAt: number, log: (line: string) => void) {
    this.#targets = targets;
    this.#random = random;
    this.#startedAt = startedAt;
    this.#log = log;
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
        await sleep(this.#randomBetween(1_000, 4_000), undefined, { signal: this.#stopping.signal }).catch(
          () => {},
        );
        if (this.#stopping.signal.aborted) return;
        const startedAt = this.#secondsSinceStart();
        this.#log(kind);
        await inject();
        this.injected.push({ kind, startedAt, endedAt: this.#secondsSinceStart() });
      }
    }
  }

  #kinds(): [string, () => Promise<void>][] {
    const { gateway, worker, cluster, redis, traffic } = this.#targets;
    const signal = SHUTDOWN_SIGNALS[Math.floor(this.#random() * SHUTDOWN_SIGNALS.length)] ?? "SIGQUIT";
    const kinds: [string, () => Promise<void>][] = [
      ["gateway killed", () => this.#restart(gateway, "SIGKILL")],
      ["gateway stopped", () => this.#restart(gateway, "SIGTERM")],
      ["worker killed", () => this.#restart(worker, "SIGKILL")],
      [
        `Postgres restarted (${signal})`,
        async () => {
          await cluster.stop(signal);
          await this.#pause(300, 2_000);
          await cluster.start();
        },
      ],
      [
        "Postgres frozen",
        async () => {
          cluster.freeze();
          await this.#pause(1_000, 5_000);
          cluster.unfreeze();
        },
      ],
      ["client connections closed", async () => traffic.closeConnections()],
      ["Postgres sessions terminated", () => this.#terminateSessions()],
    ];
    if (redis) kinds.push(["Redis killed", () => this.#restart(redis, "SIGKILL")]);
    return kinds;
  }

  async #restart(target: ManagedProcess, signal: NodeJS.Signals): Promise<void> {
    await target.stop(signal);
    await this.#pause(100, 2_000);
    await target.start();
  }

  async #terminateSessions(): Promise<void> {
    const client = new pg.Client({ connectionString: this.#targets.cluster.url });
    await client.connect();
    await client
      .query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> 'guest-forms owner'`,
      )
      .finally(() => client.end());
  }

  #shuffled<Item>(items: Item[]): Item[] {
    return items
      .map((item) => ({ item, at: this.#random() }))
      .sort((one, other) => one.at - other.at)
      .map(({ item }) => item);
  }

  #pause = (min: number, max: number) => sleep(this.#randomBetween(min, max));
  #randomBetween = (min: number, max: number) => min + this.#random() * (max - min);
  #secondsSinceStart = () => (performance.now() - this.#startedAt) / 1_000;
}
