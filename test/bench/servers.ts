import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { packageRoot } from "../../prisma/package-root.js";
import { freePort } from "../support/network.js";
import { dataFolder } from "./report.js";

const SERVICE = join(packageRoot(), "dist/main.js");

/** A worker of the service would send the emails of all servers' creates while another server is measured. */
const NODE_ARGS = {
  service: [SERVICE, "serve", "--no-worker"],
  "L+": [join(dataFolder(), "build/peers/l-plus.mjs")],
  T: [join(dataFolder(), "build/peers/t.mjs")],
};

export type ServerName = keyof typeof NODE_ARGS;

export interface Server {
  name: ServerName;
  /** For example http://127.0.0.1:3000. */
  url: string;
  pid: number;
}

/** The root secret of this run, shared by all servers, so that they return equal cursors and fingerprints. */
export const runSecret = randomBytes(32).toString("base64url");

/** Starts a server with production settings. It ends with this process. */
export async function startServer(
  name: ServerName,
  databaseUrl: string,
  env: Record<string, string> = {},
): Promise<Server> {
  const port = await freePort();
  const { pid } = startProcess(NODE_ARGS[name], databaseUrl, {
    RATE_LIMIT_MAX: "1000000000",
    PORT: String(port),
    ...env,
  });
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; tries < 600; tries++) {
    const response = await fetch(`${url}/readyz`).catch(() => undefined);
    if (response?.ok) return { name, url, pid };
    await sleep(50);
  }
  throw new Error(`${name} did not start. Its log is in ${dataFolder()}.`);
}

/** Starts a worker of the service with production settings, and `env`. */
export const startWorker = (databaseUrl: string, env: Record<string, string>) =>
  startProcess([SERVICE, "worker"], databaseUrl, env);

let started = 0;
const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

function startProcess(args: string[], databaseUrl: string, env: Record<string, string>) {
  const log = openSync(join(dataFolder(), `process-${++started}.log`), "w", 0o600);
  const settings = { NODE_ENV: "production", DATABASE_URL: databaseUrl, APP_SECRETS: runSecret, ...env };
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env.PATH, ...settings },
    stdio: ["ignore", log, log],
  });
  running.add(child);
  child.once("exit", () => running.delete(child));
  const stop = () => Promise.all([once(child, "exit"), child.kill("SIGTERM")]);
  return { pid: Number(child.pid), stop };
}
