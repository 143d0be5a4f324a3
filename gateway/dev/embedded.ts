import { spawn } from "node:child_process";
import { once } from "node:events";
import { open, readFile, realpath, rm } from "node:fs/promises";
import { type AddressInfo, createConnection, createServer } from "node:net";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Installation, ignoreErrors, install } from "./embedded-files.js";

export interface EmbeddedOptions {
  /** Folder used only for the database; created if missing, kept between starts. */
  dataDir: string;
  /** Preferred port on 127.0.0.1. If omitted or in use, a free port is used. */
  port?: number;
  /** Postgres settings by name. */
  settings?: Record<string, string>;
  /** False trades crash safety for speed. */
  durable: boolean;
  /** Called with one line per step. */
  onProgress?: (line: string) => void;
}

export type EmbeddedServer = Exclude<Awaited<ReturnType<typeof launch>>, string>;

/**
 * Starts the PostgreSQL installed by npm. Its lock file prevents a second server on the same data folder. The server
 * does not receive the terminal's signals. It stops on `stop`, or when this process ends, even by SIGKILL.
 * Errors are one sentence, followed by the end of Postgres' log if there is one.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const dataDir = resolve(options.dataDir);
  try {
    const installation = await install(dataDir, options.durable, options.onProgress ?? (() => {}));
    for (let port = options.port || (await freePort()); ; ) {
      await waitForLock(installation.folder);
      const outcome = await launch(installation, port, options);
      if (typeof outcome === "object") return outcome;
      if (outcome === "port taken") port = await freePort();
    }
  } catch (error) {
    const { code, syscall, message } = error as NodeJS.ErrnoException;
    if (!code || !syscall) throw error;
    const reason = syscall === "spawn" && code === "EPERM" ? CANNOT_CHANGE_USER : message;
    throw new Error(`Cannot keep a database in ${dataDir}: ${reason}.`, { cause: error });
  }
}

const CANNOT_CHANGE_USER = "PostgreSQL refuses to run as root, and this process cannot run it as another user";

/** Deletes a database, if there is one. Throws if it is in use. */
export async function removeEmbedded(dataDir: string): Promise<void> {
  const folder = await realpath(dataDir).catch(ignoreErrors("ENOENT"));
  if (!folder) return;
  await waitForLock(folder);
  for (const path of [folder, dataDir]) await rm(path, { recursive: true, force: true });
}

const NOT_DURABLE = { fsync: "off", synchronous_commit: "off", full_page_writes: "off" };

/**
 * Starts a background process that reads standard input, then execs Postgres. If standard input ends without a line, the
 * parent has died, and the background process stops Postgres.
 */
const WITH_LIFELINE = `exec 3<&0
( { read -r line <&3 || kill -INT $$; } >/dev/null 2>&1 & )
exec "$@" 3<&- </dev/null`;

async function launch(
  { folder, bin, spawnOptions }: Installation,
  port: number,
  { durable, settings }: EmbeddedOptions,
) {
  const all = {
    ...(durable ? {} : NOT_DURABLE),
    ...settings,
    listen_addresses: "127.0.0.1",
    port: String(port),
    // No socket: its path would be limited to about 100 characters.
    unix_socket_directories: "",
  };
  const flags = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const postgres = [join(bin, "postgres"), "-D", join(folder, "cluster"), ...flags];
  const [command = "", ...args] =
    process.platform === "win32" ? postgres : ["/bin/sh", "-c", WITH_LIFELINE, "sh", ...postgres];
  const path = join(folder, "log");
  const log = await open(path, "a", 0o600);
  const { size } = await log.stat();
  // A separate process group, so that Ctrl-C in a terminal does not stop Postgres before the service has drained.
  const stdio: ["pipe", number, number] = ["pipe", log.fd, log.fd];
  const child = spawn(command, args, { ...spawnOptions, detached: true, stdio });
  const lifeline = child.stdin?.on("error", () => {});
  let hasExited = false;
  const exited = once(child, "exit").finally(() => {
    hasExited = true;
    lifeline?.end("\n");
  });
  exited.catch(() => {});
  await log.close();
  for (let lock = await readLock(folder); lock?.pid !== child.pid || lock?.state !== "ready"; ) {
    if (hasExited) {
      await exited;
      return readStartFailure((await readFile(path)).subarray(size).toString("utf8"), folder);
    }
    await sleep(20);
    lock = await readLock(folder);
  }
  // Lets this process exit without waiting for the server.
  child.unref();
  const stop = async () => {
    child.ref();
    child.kill("SIGINT");
    const timer = setTimeout(() => child.kill("SIGQUIT"), FAST_SHUTDOWN_TIMEOUT_MS);
    await exited;
    clearTimeout(timer);
  };
  let stopping: Promise<void> | undefined;
  return {
    /** Of the superuser and the database "postgres". */
    url: `postgres://postgres:${await readFile(join(folder, "password"), "utf8")}@127.0.0.1:${port}/postgres`,
    port,
    pid: Number(child.pid),
    /** The data folder with links resolved. */
    dataDir: folder,
    /** Ends all sessions and the server. Idempotent. */
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

const FAST_SHUTDOWN_TIMEOUT_MS = 10_000;

function readStartFailure(log: string, folder: string): "port taken" | "locked" {
  if (/could not create any TCP/.test(log)) return "port taken";
  if (/lock file ".*" (already exists|is empty)/.test(log)) return "locked";
  throw new Error(`PostgreSQL did not start in ${folder}.\n${log.trim().split("\n").slice(-8).join("\n")}`);
}

const LOCK_TIMEOUT_MS = 2_000;
const STOP_TIMEOUT_MS = 60_000;

/** Waits for another server on the folder, which may be stopping. Throws if it is still running after the timeout. */
async function waitForLock(folder: string): Promise<void> {
  for (const since = performance.now(); ; await sleep(100)) {
    const lock = await readLock(folder);
    if (!lock || !isRunning(lock.pid)) return;
    if (performance.now() - since < (lock.state === "stopping" ? STOP_TIMEOUT_MS : LOCK_TIMEOUT_MS)) continue;
    if (await isListening(lock.port)) {
      throw new Error(`The database in ${folder} is in use by another process: stop that process first.`);
    }
    // A stale lock file whose process id was reused: Postgres would never start.
    return rm(lockFile(folder), { force: true });
  }
}

const lockFile = (folder: string) => join(folder, "cluster", "postmaster.pid");

/** Reads Postgres' lock file, if there is one, as `pg_ctl` does. */
async function readLock(folder: string) {
  const file = await readFile(lockFile(folder), "utf8").catch(ignoreErrors("ENOENT"));
  if (file === undefined) return undefined;
  const [pid, , , port, , , , state = ""] = file.split("\n");
  // The state is "starting", "ready", "stopping" or "standby".
  return { pid: Number(pid), port: Number(port) || 1, state: state.trim() };
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // EPERM: it runs as another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

const isListening = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = createConnection(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });

async function freePort(): Promise<number> {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  listener.close();
  return port;
}
