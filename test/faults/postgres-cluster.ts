import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { type EmbeddedServer, startEmbedded } from "../../gateway/dev/embedded.js";
import { isAlive } from "../is-alive.js";

export interface ClusterOptions {
  /** A folder of its own in the system's temporary one unless given. */
  dataDir?: string;
  /** Postgres settings by name. */
  settings?: Record<string, string>;
  /** Variables that Postgres gets beside those of this process. */
  env?: Record<string, string>;
}

/** Fast, immediate, and the death of the postmaster itself. */
export type Ending = "SIGINT" | "SIGQUIT" | "SIGKILL";

/** A durable PostgreSQL at a port that stays its own, to be ended, frozen and started again. */
export class Cluster {
  readonly url: string;
  readonly port: number;
  readonly dataDir: string;
  readonly #settings: Record<string, string>;
  readonly #env: Record<string, string>;
  #server: EmbeddedServer;
  #frozen: number[] = [];

  private constructor(server: EmbeddedServer, { settings = {}, env = {} }: ClusterOptions) {
    this.#server = server;
    this.#settings = settings;
    this.#env = env;
    this.url = server.url;
    this.port = server.port;
    this.dataDir = server.dataDir;
  }

  static async create(options: ClusterOptions = {}): Promise<Cluster> {
    const { settings = {}, env = {} } = options;
    const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), "guest-forms-faults-")));
    const port = await quietPort();
    const server = await withVariables(env, () => startEmbedded({ dataDir, durable: true, port, settings }));
    return new Cluster(server, options);
  }

  /** Starts it again, and tells when it first took a connection, as of `performance.now`. */
  async start(): Promise<number> {
    const probe = firstConnection(this.url);
    const starting = withVariables(this.#env, () =>
      startEmbedded({
        dataDir: this.dataDir,
        durable: true,
        port: this.port,
        settings: this.#settings,
      }),
    );
    this.#server = await starting;
    if (this.#server.port !== this.port) throw new Error(`Port ${this.port} was taken meanwhile.`);
    return probe;
  }

  /** Ends it, and waits until nothing of it runs. */
  async end(how: Ending): Promise<void> {
    const all = [this.#server.pid, ...childrenOf(this.#server.pid)];
    process.kill(this.#server.pid, how);
    await gone(all);
    await this.#server.stop();
  }

  /** Stops the postmaster and every session where they are; connections stay open. */
  freeze(): void {
    const { pid } = this.#server;
    // The postmaster first: it can then start no other.
    process.kill(pid, "SIGSTOP");
    this.#frozen = [pid, ...childrenOf(pid)];
    for (const each of this.#frozen) signal(each, "SIGSTOP");
  }

  thaw(): void {
    for (const each of this.#frozen.splice(0).reverse()) signal(each, "SIGCONT");
  }

  isRunning(): boolean {
    return isAlive(this.#server.pid);
  }

  /** Ends it and removes its folder. */
  async remove(): Promise<void> {
    this.thaw();
    await this.#server.stop();
    await rm(this.dataDir, { recursive: true, force: true });
  }
}

/** Sets variables of this process while `work` starts others. */
async function withVariables<Result>(
  env: Record<string, string>,
  work: () => Promise<Result>,
): Promise<Result> {
  const before = Object.keys(env).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, env);
  try {
    return await work();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

const childrenOf = (pid: number): number[] => {
  const found = execFileSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" });
  return found
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number))
    .flatMap(([child, parent]) => (child && parent === pid ? [child] : []));
};

/** A session may have ended by itself meanwhile. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

const END_MS = 30_000;

async function gone(pids: number[]): Promise<void> {
  for (const since = Date.now(); pids.some(isAlive); await sleep(10)) {
    if (Date.now() - since > END_MS) throw new Error(`Postgres still runs: ${pids.filter(isAlive)}`);
  }
}

const ACCEPT_MS = 60_000;

async function firstConnection(url: string): Promise<number> {
  for (const since = Date.now(); Date.now() - since < ACCEPT_MS; await sleep(10)) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 });
    client.on("error", () => {});
    const isIn = await client.connect().then(
      () => true,
      () => false,
    );
    const at = performance.now();
    await client.end().catch(() => {});
    if (isIn) return at;
  }
  throw new Error("Postgres lets nobody in.");
}

const LOWEST_PORT = 20_000;
const PORTS = 10_000;

// Below the ports that systems give to clients: while the server is away, none of these may take its port by chance.
export async function quietPort(): Promise<number> {
  for (;;) {
    const port = LOWEST_PORT + Math.floor(Math.random() * PORTS);
    const listener = createServer().listen(port, "127.0.0.1");
    const isFree = await Promise.race([
      once(listener, "listening").then(() => true),
      once(listener, "error").then(() => false),
    ]).catch(() => false);
    listener.close();
    if (isFree) return port;
  }
}
