import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { packageRoot } from "../../prisma/package-root.js";
import { freePort } from "../support/network.js";
import { dataFolder, runSecret } from "./database.js";
import { GC_TRACE, readTrace, type Scavenged } from "./scavenges.js";

export type ServerName = "service" | "L" | "L+" | "T";
export const SERVERS: readonly ServerName[] = ["service", "L", "L+", "T"];

export interface Server {
  name: ServerName;
  /** For example http://127.0.0.1:3000. */
  url: string;
  pid: number;
  /** Milliseconds from the start of the process until /readyz returns 200. */
  startupMs: number;
  /** What the scavenger of its process has done since the last call. */
  scavenged(): Scavenged;
  stop(): Promise<void>;
}

/**
 * Node.js arguments of each server. `--no-worker`, because a worker would send the notifications of all servers' creates
 * while another server is measured.
 */
const NODE_ARGS: Record<ServerName, string[]> = {
  service: [join(packageRoot(), "dist/gateway/cli.js"), "serve", "--no-worker"],
  L: [join(dataFolder(), "build/peers/l.mjs")],
  "L+": [join(dataFolder(), "build/peers/l-plus.mjs")],
  T: [join(dataFolder(), "build/peers/t.mjs")],
};

const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

const READY_TIMEOUT_MS = 30_000;

export interface StartOptions {
  /** Arguments of Node.js itself. */
  nodeArgs?: string[];
  /** Arguments of the server. */
  args?: string[];
}

/** Starts a server with production settings. */
export async function startServer(
  name: ServerName,
  databaseUrl: string,
  { nodeArgs = [], args = [] }: StartOptions = {},
): Promise<Server> {
  const port = await freePort();
  const file = (what: string) => join(dataFolder(), `${name}-${port}.${what}`);
  const [logFile, traceFile] = [file("log"), file("gc")];
  const [log, trace] = [openSync(logFile, "w", 0o600), openSync(traceFile, "w", 0o600)];
  const began = performance.now();
  const child = spawn(process.execPath, [...GC_TRACE, ...nodeArgs, ...NODE_ARGS[name], ...args], {
    env: {
      PATH: process.env.PATH,
      NODE_ENV: "production",
      DATABASE_URL: databaseUrl,
      APP_SECRETS: runSecret,
      RATE_LIMIT_MAX: "1000000000",
      PORT: String(port),
    },
    // Servers log to stderr; V8 writes its trace to stdout.
    stdio: ["ignore", trace, log],
  });
  for (const fd of [log, trace]) closeSync(fd);
  running.add(child);
  child.once("exit", () => running.delete(child));
  const url = `http://127.0.0.1:${port}`;
  while (!(await isReady(url))) {
    if (child.exitCode !== null || performance.now() - began > READY_TIMEOUT_MS) {
      throw new Error(`${name} did not start:\n${readFileSync(logFile, "utf8").slice(-2000)}`);
    }
    await sleep(5);
  }
  const startupMs = performance.now() - began;
  const stop = async () => {
    await stopProcess(child);
    for (const path of [logFile, traceFile]) rmSync(path, { force: true });
  };
  return { name, url, pid: Number(child.pid), startupMs, scavenged: readTrace(traceFile), stop };
}

const isReady = (url: string) =>
  fetch(`${url}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  );

async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 15_000);
  await exit;
  clearTimeout(timer);
}
