import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Cluster, Ending } from "./postgres-cluster.js";
import type { Traffic } from "./postgres-traffic.js";
import type { Service } from "./soak-services.js";

/** What there is to fail. */
export interface Targets {
  cluster: Cluster;
  /** The one that is killed; another one lives on. */
  gateway: Service;
  worker: Service;
  /** Absent where it is not ours to kill. */
  redis: Service | undefined;
  traffic: Traffic;
}

/** A fault that was made, in seconds since the beginning. */
export interface Fault {
  what: string;
  from: number;
  to: number;
}

const ENDINGS: Ending[] = ["SIGINT", "SIGQUIT", "SIGKILL"];

/** Makes faults at random, one after the other, until it is stopped; everything runs again then. */
export class Faults {
  readonly made: Fault[] = [];
  readonly #targets: Targets;
  readonly #random: () => number;
  readonly #began: number;
  readonly #tell: (line: string) => void;
  #loop: Promise<void> = Promise.resolve();
  readonly #stopping = new AbortController();

  constructor(targets: Targets, random: () => number, began: number, tell: (line: string) => void) {
    this.#targets = targets;
    this.#random = random;
    this.#began = began;
    this.#tell = tell;
  }

  start(): void {
    this.#loop = this.#run();
    // Awaited by `stop` alone, which may be later.
    this.#loop.catch(() => {});
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#loop;
  }

  async #run(): Promise<void> {
    // Each once in any order, then again in another: a short run has all kinds too.
    while (!this.#stopping.signal.aborted) {
      for (const [what, make] of this.#shuffled(this.#kinds())) {
        await sleep(this.#between(1_000, 4_000), undefined, { signal: this.#stopping.signal }).catch(
          () => {},
        );
        if (this.#stopping.signal.aborted) return;
        const from = this.#now();
        this.#tell(what);
        await make();
        this.made.push({ what, from, to: this.#now() });
      }
    }
  }

  #kinds(): [string, () => Promise<void>][] {
    const { gateway, worker, cluster, redis, traffic } = this.#targets;
    const ending = ENDINGS[Math.floor(this.#random() * ENDINGS.length)] ?? "SIGQUIT";
    const kinds: [string, () => Promise<void>][] = [
      ["gateway killed", () => this.#restart(gateway, "SIGKILL")],
      ["gateway stopped", () => this.#restart(gateway, "SIGTERM")],
      ["worker killed", () => this.#restart(worker, "SIGKILL")],
      [
        `Postgres restarted (${ending})`,
        async () => {
          await cluster.end(ending);
          await this.#pause(300, 2_000);
          await cluster.start();
        },
      ],
      [
        "Postgres frozen",
        async () => {
          cluster.freeze();
          await this.#pause(1_000, 5_000);
          cluster.thaw();
        },
      ],
      ["connections of clients cut", async () => traffic.cut()],
      ["connections to Postgres cut", () => this.#endSessions()],
    ];
    if (redis) kinds.push(["Redis killed", () => this.#restart(redis, "SIGKILL")]);
    return kinds;
  }

  async #restart(service: Service, signal: NodeJS.Signals): Promise<void> {
    await service.end(signal);
    await this.#pause(100, 2_000);
    await service.start();
  }

  async #endSessions(): Promise<void> {
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

  #pause = (least: number, most: number) => sleep(this.#between(least, most));
  #between = (least: number, most: number) => least + this.#random() * (most - least);
  #now = () => (performance.now() - this.#began) / 1_000;
}
