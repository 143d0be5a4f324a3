import { execFileSync } from "node:child_process";
import { chown, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { type EmbeddedServer, startEmbedded } from "../../gateway/dev/embedded.js";
import { restartablePort } from "./network.js";
import { isAlive } from "./processes.js";

interface PostgresClusterOptions {
  /** Default: a new temporary folder. */
  dataDir?: string;
  /** Postgres settings by name. */
  settings?: Record<string, string>;
}

/** Fast and immediate shutdown, and a crash of the postmaster. */
export type ShutdownSignal = "SIGINT" | "SIGQUIT" | "SIGKILL";

/** A durable PostgreSQL on a fixed port that can be stopped, frozen and restarted. */
export class PostgresCluster {
  readonly url: string;
  readonly port: number;
  readonly dataDir: string;
  readonly #settings: Record<string, string>;
  #server: EmbeddedServer;
  #frozen: number[] = [];

  private constructor(server: EmbeddedServer, { settings = {} }: PostgresClusterOptions) {
    this.#server = server;
    this.#settings = settings;
    this.url = server.url;
    this.port = server.port;
    this.dataDir = server.dataDir;
  }

  static async create(options: PostgresClusterOptions = {}): Promise<PostgresCluster> {
    const { settings = {} } = options;
    const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), "guest-forms-faults-")));
    const port = await restartablePort();
    const server = await startEmbedded({ dataDir, durable: true, port, settings });
    return new PostgresCluster(server, options);
  }

  /** Starts it again. Returns `performance.now()` of the first accepted connection. */
  async start(): Promise<number> {
    const firstConnectionAt = waitForConnection(this.url);
    this.#server = await startEmbedded({
      dataDir: this.dataDir,
      durable: true,
      port: this.port,
      settings: this.#settings,
    });
    if (this.#server.port !== this.port) throw new Error(`Port ${this.port} was taken while Postgres was down.`);
    return firstConnectionAt;
  }

  /** Stops it, and waits until all its processes have exited. */
  async stop(signal: ShutdownSignal): Promise<void> {
    const pids = [this.#server.pid, ...childrenOf(this.#server.pid)];
    process.kill(this.#server.pid, signal);
    await waitForExit(pids);
    await this.#server.stop();
  }

  /** Restarts it as a standby, of no primary. */
  async becomeStandby(): Promise<void> {
    await this.stop("SIGINT");
    const signal = join(this.dataDir, "cluster/standby.signal");
    await writeFile(signal, "");
    const { uid, gid } = await stat(join(this.dataDir, "cluster"));
    await chown(signal, uid, gid);
    await this.start();
  }

  /** Suspends the postmaster and every session with SIGSTOP; connections stay open. */
  freeze(): void {
    this.#frozen = suspendAll(this.#server.pid);
  }

  unfreeze(): void {
    resumeAll(this.#frozen.splice(0));
  }

  /** Stops it and removes its data folder. */
  async remove(): Promise<void> {
    this.unfreeze();
    await this.#server.stop();
    await rm(this.dataDir, { recursive: true, force: true });
  }
}

/** Suspends a postmaster and all its processes. Returns their ids. */
export function suspendAll(pid: number): number[] {
  // The postmaster first, so that it cannot start other processes.
  process.kill(pid, "SIGSTOP");
  const pids = [pid, ...childrenOf(pid)];
  for (const each of pids) sendSignal(each, "SIGSTOP");
  return pids;
}

export function resumeAll(pids: number[]): void {
  for (const pid of pids.toReversed()) sendSignal(pid, "SIGCONT");
}

/** Kills a postmaster and all its processes, as if the machine had failed, and waits for their exit. */
export async function killAll(pid: number): Promise<void> {
  const pids = suspendAll(pid);
  for (const each of pids) sendSignal(each, "SIGKILL");
  while (runningProcesses().some(({ pid }) => pids.includes(pid))) await sleep(10);
}

const childrenOf = (pid: number): number[] =>
  runningProcesses().flatMap((each) => (each.parent === pid ? [each.pid] : []));

/** All processes except those that have ended and were not collected yet, which still have an id. */
function runningProcesses(): { pid: number; parent: number }[] {
  const output = execFileSync("ps", ["-A", "-o", "pid=,ppid=,stat="], { encoding: "utf8" });
  return output.split("\n").flatMap((line) => {
    const [pid, parent, state = "Z"] = line.trim().split(/\s+/);
    return state.startsWith("Z") ? [] : [{ pid: Number(pid), parent: Number(parent) }];
  });
}

/** Ignores a process that has exited. */
function sendSignal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

const EXIT_TIMEOUT_MS = 30_000;

async function waitForExit(pids: number[]): Promise<void> {
  for (const since = Date.now(); pids.some(isAlive); await sleep(10)) {
    if (Date.now() - since > EXIT_TIMEOUT_MS)
      throw new Error(`Postgres processes still running: ${pids.filter(isAlive)}`);
  }
}

const CONNECT_TIMEOUT_MS = 60_000;

async function waitForConnection(url: string): Promise<number> {
  for (const since = Date.now(); Date.now() - since < CONNECT_TIMEOUT_MS; await sleep(10)) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 });
    client.on("error", () => {});
    const isConnected = await client.connect().then(
      () => true,
      () => false,
    );
    const at = performance.now();
    await client.end().catch(() => {});
    if (isConnected) return at;
  }
  throw new Error("Postgres accepts no connections.");
}
