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
  /** postgres:// address. */
  url: string;
  /** Drops it now, whoever is connected; the end of the test file does so anyway. */
  drop(): Promise<void>;
}

/** Not UTC, so that a session that forgets to set its own is noticed. */
const TIME_ZONE = "America/New_York";
const OBJECT_IN_USE = "55006";

/** A database of the test's own: migrated and with a stored secret, or without anything in it. */
export async function createTestDatabase({ empty = false } = {}): Promise<TestDatabase> {
  const name = `${inject("template")}_${randomBytes(4).toString("hex")}`;
  const source = empty ? "template0" : inject("template");
  for (let tries = 1; ; tries++) {
    try {
      await onServer(`CREATE DATABASE "${name}" TEMPLATE "${source}"`);
      break;
    } catch (error) {
      const busy = error instanceof pg.DatabaseError && error.code === OBJECT_IN_USE;
      if (!busy || tries === 20) throw error;
      await sleep(50 * tries);
    }
  }
  await onServer(`ALTER DATABASE "${name}" SET timezone TO '${TIME_ZONE}'`);
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

/** A port of 127.0.0.1 that nobody listened on a moment ago. */
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
  /** Null where a signal ended it. */
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface SpawnOptions {
  /** The child's variables, beside PATH, HOME and TMPDIR: it gets no others. */
  env?: Record<string, string | undefined>;
  cwd?: string;
  /** What to put before the command, such as `ip netns exec NAME`. */
  within?: string[];
}

/** Runs `guest-forms` with these arguments; it is ended with the test file. */
export function spawnCli(args: string[], options: SpawnOptions = {}): RunningProcess {
  return spawnNode([join(packageRoot(), "dist/gateway/cli.js"), ...args], options);
}

/** Runs `guest-forms` with these arguments to its end. */
export const runCli = (args: string[], options: SpawnOptions = {}) => spawnCli(args, options).done;

/** Runs node with these arguments; it is ended with the test file. */
export function spawnNode(args: string[], { env = {}, cwd, within = [] }: SpawnOptions = {}): RunningProcess {
  const { PATH, HOME, TMPDIR } = process.env;
  const [command = process.execPath, ...rest] = [...within, process.execPath, ...args];
  const child = spawn(command, rest, {
    env: { PATH, HOME, TMPDIR, ...env },
    ...(cwd ? { cwd } : {}),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const running = new RunningProcess(child);
  children.push(running);
  return running;
}

/** A child process, with all that it has said. */
export class RunningProcess {
  stdout = "";
  stderr = "";
  /** Settles when it has ended and said everything. */
  readonly done: Promise<ProcessResult>;
  private hasEnded = false;
  private readonly child: ChildProcess;
  private readonly listeners = new Set<() => void>();

  constructor(child: ChildProcess) {
    this.child = child;
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
      this.tell();
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
      this.tell();
    });
    this.done = new Promise((resolve, reject) => {
      child.once("error", (error) => {
        this.hasEnded = true;
        reject(error);
      });
      child.once("close", (code, signal) => {
        this.hasEnded = true;
        resolve({ stdout: this.stdout, stderr: this.stderr, code, signal });
        this.tell();
      });
    });
    this.done.catch(() => {});
  }

  get pid(): number {
    return Number(this.child.pid);
  }

  /** The first line of either stream that matches; rejects, quoting the output, if it ends or `timeout` ms pass. */
  waitForLine(pattern: RegExp, timeout = 45_000): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const settle = () => {
        this.listeners.delete(look);
        clearTimeout(timer);
      };
      const fail = (why: string) => {
        settle();
        reject(new Error(`${why} before a line matching ${pattern}:\n${this.stdout}\n${this.stderr}`));
      };
      const look = () => {
        for (const line of [...whole(this.stdout), ...whole(this.stderr)]) {
          const match = new RegExp(pattern.source, pattern.flags.replace("g", "")).exec(line);
          if (match) {
            settle();
            resolve(match);
            return;
          }
        }
        if (this.hasEnded) fail("The process ended");
      };
      const timer = setTimeout(() => fail(`${timeout} ms passed`), timeout);
      this.listeners.add(look);
      look();
    });
  }

  /** Sends the signal and waits for the end. */
  stop(signal: NodeJS.Signals = "SIGTERM"): Promise<ProcessResult> {
    this.child.kill(signal);
    return this.done;
  }

  /** Asks it to end, and makes it end after `patience` ms. */
  async end(patience = 5_000): Promise<void> {
    if (this.hasEnded) return;
    const timer = setTimeout(() => this.child.kill("SIGKILL"), patience);
    await this.stop().catch(() => {});
    clearTimeout(timer);
  }

  private tell(): void {
    for (const listener of [...this.listeners]) listener();
  }
}

const whole = (text: string) => text.split("\n").slice(0, -1);

const children: RunningProcess[] = [];
const drops: (() => Promise<void>)[] = [];

// Registered first, so run last: after what the test file itself closes.
afterAll(async () => {
  await Promise.all(children.map((child) => child.end()));
  for (const drop of drops) await drop();
});
