import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { packageRoot } from "../../prisma/package-root.js";
import { freePort } from "../support/network.js";
import { runSecret } from "./database.js";
import { dataFolder } from "./report.js";

export type ServerName = "service" | "L" | "L+" | "T";
export const SERVERS: readonly ServerName[] = ["service", "L", "L+", "T"];

export interface Server {
  name: ServerName;
  /** For example http://127.0.0.1:3000. */
  url: string;
  pid: number;
  stop(): Promise<void>;
}

/**
 * Node.js arguments of each server. `--no-worker`, because a worker would send the emails of all servers' creates
 * while another server is measured.
 */
const NODE_ARGS: Record<ServerName, string[]> = {
  service: [join(packageRoot(), "dist/main.js"), "serve", "--no-worker"],
  L: [join(dataFolder(), "build/peers/l.mjs")],
  "L+": [join(dataFolder(), "build/peers/l.mjs"), "--plus"],
  T: [join(dataFolder(), "build/peers/t.mjs")],
};

const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

const READY_TIMEOUT_MS = 30_000;

/** Starts a server with production settings. */
export async function startServer(name: ServerName, databaseUrl: string): Promise<Server> {
  const port = await freePort();
  const began = performance.now();
  const env = { RATE_LIMIT_MAX: "1000000000", PORT: String(port) };
  const { child, logFile, ...started } = startProcess(`${name}-${port}`, NODE_ARGS[name], databaseUrl, env);
  const url = `http://127.0.0.1:${port}`;
  while (!(await isReady(url))) {
    if (child.exitCode !== null || performance.now() - began > READY_TIMEOUT_MS) {
      throw new Error(`${name} did not start:\n${readFileSync(logFile, "utf8").slice(-2000)}`);
    }
    await sleep(5);
  }
  return { name, url, ...started };
}

/** Starts a worker of the service with production settings, and `env`. */
export const startWorkerProcess = (databaseUrl: string, env: Record<string, string>) =>
  startProcess(`worker-${randomUUID()}`, [join(packageRoot(), "dist/main.js"), "worker"], databaseUrl, env);

function startProcess(name: string, args: string[], databaseUrl: string, env: Record<string, string>) {
  const logFile = join(dataFolder(), `${name}.log`);
  const log = openSync(logFile, "w", 0o600);
  const child = spawn(process.execPath, args, {
    env: {
      PATH: process.env.PATH,
      NODE_ENV: "production",
      DATABASE_URL: databaseUrl,
      APP_SECRETS: runSecret,
      ...env,
    },
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  killAtExit(child);
  const stop = async () => {
    await stopProcess(child);
    rmSync(logFile, { force: true });
  };
  return { child, logFile, pid: Number(child.pid), stop };
}

/** Kills the process when this one exits. */
export function killAtExit(child: ChildProcess): ChildProcess {
  running.add(child);
  child.once("exit", () => running.delete(child));
  return child;
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
