import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, inject } from "vitest";
import { packageRoot } from "../prisma/package-root.js";

export interface TestDatabase {
  /** postgres:// URL. */
  url: string;
  /** Drops it now and disconnects its clients. Otherwise it is dropped after the test file. */
  drop(): Promise<void>;
}

/** Not UTC, so tests fail if a session does not set its own time zone. */
const DATABASE_TIME_ZONE = "America/New_York";
const OBJECT_IN_USE = "55006";

/** Creates a database for one test: migrated and with a stored secret, or empty. */
export async function createTestDatabase({ empty = false } = {}): Promise<TestDatabase> {
  const name = `${inject("template")}_${randomBytes(4).toString("hex")}`;
  const source = empty ? "template0" : inject("template");
  for (let attempt = 1; ; attempt++) {
    try {
      await onServer(`CREATE DATABASE "${name}" TEMPLATE "${source}"`);
      break;
    } catch (error) {
      const isBusy = error instanceof pg.DatabaseError && error.code === OBJECT_IN_USE;
      if (!isBusy || attempt === 20) throw error;
      await sleep(50 * attempt);
    }
  }
  await onServer(`ALTER DATABASE "${name}" SET timezone TO '${DATABASE_TIME_ZONE}'`);
  const url = new URL(inject("serverUrl"));
  url.pathname = name;
  const drop = () => onServer(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
  drops.push(drop);
  return { url: url.href, drop };
}

async function onServer(sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: inject("serverUrl"), connectionTimeoutMillis: 30_000 });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

/** Returns a port of 127.0.0.1 on which nothing listens at the moment. */
export async function freePort(): Promise<number> {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  listener.close();
  if (typeof address !== "object" || !address) throw new Error("The listener has no port.");
  return address.port;
}

export interface ProcessResult {
  stdout: string;
  stderr: string;
  /** Null if a signal ended the process. */
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface SpawnOptions {
  /** The child's environment variables. It also gets PATH, HOME and TMPDIR, and no others. */
  env?: Record<string, string | undefined>;
  cwd?: string;
  /** Put before the command, such as `ip netns exec NAME`. */
  commandPrefix?: string[];
}

/** Starts `guest-forms` with these arguments. It is stopped after the test file. */
export function spawnCli(args: string[], options: SpawnOptions = {}): RunningProcess {
  return spawnNode([join(packageRoot(), "dist/gateway/cli.js"), ...args], options);
}

/** Runs `guest-forms` with these arguments until it exits. */
export const runCli = (args: string[], options: SpawnOptions = {}) => spawnCli(args, options).done;

/** Starts node with these arguments. It is stopped after the test file. */
export function spawnNode(
  args: string[],
  { env = {}, cwd, commandPrefix = [] }: SpawnOptions = {},
): RunningProcess {
  const { PATH, HOME, TMPDIR } = process.env;
  const [command = process.execPath, ...rest] = [...commandPrefix, process.execPath, ...args];
  const child = spawn(command, rest, {
    env: { PATH, HOME, TMPDIR, ...env },
    ...(cwd ? { cwd } : {}),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const running = new RunningProcess(child);
  processes.push(running);
  return running;
}

/** A child process and its output. */
export class RunningProcess {
  stdout = "";
  stderr = "";
  /** Settles when the process has exited and its output has been read. */
  readonly done: Promise<ProcessResult>;
  private hasExited = false;
  private readonly child: ChildProcess;
  private readonly listeners = new Set<() => void>();

  constructor(child: ChildProcess) {
    this.child = child;
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
      this.notifyListeners();
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
      this.notifyListeners();
    });
    this.done = new Promise((resolve, reject) => {
      child.once("error", (error) => {
        this.hasExited = true;
        reject(error);
      });
      child.once("close", (code, signal) => {
        this.hasExited = true;
        resolve({ stdout: this.stdout, stderr: this.stderr, code, signal });
        this.notifyListeners();
      });
    });
    this.done.catch(() => {});
  }

  get pid(): number {
    return Number(this.child.pid);
  }

  /** Returns the first line of either stream that matches. Rejects with the output on exit or timeout. */
  waitForLine(pattern: RegExp, timeoutMs = 45_000): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const cleanUp = () => {
        this.listeners.delete(findMatch);
        clearTimeout(timer);
      };
      const fail = (why: string) => {
        cleanUp();
        reject(new Error(`${why} before a line matching ${pattern}:\n${this.stdout}\n${this.stderr}`));
      };
      const findMatch = () => {
        for (const line of [...completeLines(this.stdout), ...completeLines(this.stderr)]) {
          const match = new RegExp(pattern.source, pattern.flags.replace("g", "")).exec(line);
          if (match) {
            cleanUp();
            resolve(match);
            return;
          }
        }
        if (this.hasExited) fail("The process exited");
      };
      const timer = setTimeout(() => fail(`${timeoutMs} ms passed`), timeoutMs);
      this.listeners.add(findMatch);
      findMatch();
    });
  }

  /** Sends the signal and waits for the exit. */
  stop(signal: NodeJS.Signals = "SIGTERM"): Promise<ProcessResult> {
    this.child.kill(signal);
    return this.done;
  }

  /** Sends SIGTERM, and SIGKILL if it is still running after `timeoutMs`. */
  async stopOrKill(timeoutMs = 5_000): Promise<void> {
    if (this.hasExited) return;
    const timer = setTimeout(() => this.child.kill("SIGKILL"), timeoutMs);
    await this.stop().catch(() => {});
    clearTimeout(timer);
  }

  private notifyListeners(): void {
    for (const listener of [...this.listeners]) listener();
  }
}

const completeLines = (text: string) => text.split("\n").slice(0, -1);

const processes: RunningProcess[] = [];
const drops: (() => Promise<void>)[] = [];

// Runs after the test file's own hooks, because Vitest runs afterAll hooks in reverse order.
afterAll(async () => {
  await Promise.all(processes.map((each) => each.stopOrKill()));
  for (const drop of drops) await drop();
});
