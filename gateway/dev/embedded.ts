import { spawn } from "node:child_process";
import { once } from "node:events";
import { open, readFile, realpath, rm } from "node:fs/promises";
import { type AddressInfo, createConnection, createServer } from "node:net";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Installation, install, unless } from "./embedded-files.js";

export interface EmbeddedOptions {
  /** Folder for the database alone; created if missing, kept between starts. */
  dataDir: string;
  /** Preferred port on 127.0.0.1; a free one if it is taken or not given. */
  port?: number;
  /** Postgres settings by name. */
  settings?: Record<string, string>;
  /** False trades crash safety for speed. */
  durable: boolean;
  /** Called with one line per step a person may want to know of. */
  onProgress?: (line: string) => void;
}

export interface EmbeddedServer {
  /** postgres:// address of the superuser and the database "postgres". */
  url: string;
  port: number;
  /** The folder in use: where `dataDir` leads to. */
  dataDir: string;
  /** The server's process id. */
  pid: number;
  /** Ends all sessions and the server. May be called again. */
  stop(): Promise<void>;
}

/**
 * Starts the PostgreSQL that npm installed; its own lock file keeps a second process out of the data folder. The
 * server does not receive the terminal's signals. It stops on `stop`, or when this process ends, even by SIGKILL.
 * Errors are one sentence, followed by the end of Postgres' log if that says more.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const dataDir = resolve(options.dataDir);
  try {
    const installation = await install(dataDir, options.durable, options.onProgress ?? (() => {}));
    let port = options.port || (await freePort());
    for (const since = Date.now(); ; ) {
      const outcome = await launch(installation, port, options);
      if (typeof outcome === "object") return outcome;
      if (outcome === "port taken") port = await freePort();
      else await waitForLock(installation.folder, since);
    }
  } catch (error) {
    const { code, syscall, message } = error as NodeJS.ErrnoException;
    if (!code || !syscall) throw error;
    const reason = syscall === "spawn" && code === "EPERM" ? CANNOT_CHANGE_USER : message;
    throw new Error(`Cannot keep a database in ${dataDir}: ${reason}.`, { cause: error });
  }
}

const CANNOT_CHANGE_USER =
  "PostgreSQL refuses to run as root, and this process may not run it as another user";

/** Deletes a database, if there is one. Throws if it is in use. */
export async function removeEmbedded(dataDir: string): Promise<void> {
  const folder = await realpath(dataDir).catch(unless("ENOENT"));
  if (!folder) return;
  for (const since = Date.now(); await isInUse(folder); await sleep(100)) {
    if (Date.now() - since > IN_USE_AFTER_MS) throw inUse(folder);
  }
  for (const path of [folder, dataDir]) await rm(path, { recursive: true, force: true });
}

const NOT_DURABLE = { fsync: "off", synchronous_commit: "off", full_page_writes: "off" };

/**
 * Becomes Postgres, after it has left a process behind that waits on standard input: if that ends without a line, the
 * starting process has died, and Postgres is told to stop.
 */
const WITH_LIFELINE = `exec 3<&0
( { read -r line <&3 || kill -INT $$; } >/dev/null 2>&1 & )
exec "$@" 3<&- </dev/null`;

async function launch(
  { folder, bin, spawnOptions }: Installation,
  port: number,
  { durable, settings }: EmbeddedOptions,
): Promise<EmbeddedServer | "port taken" | "locked"> {
  const all = {
    ...(durable ? {} : NOT_DURABLE),
    ...settings,
    listen_addresses: "127.0.0.1",
    port: String(port),
    // The path of a socket is limited to about a hundred characters.
    unix_socket_directories: "",
  };
  const flags = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const postgres = [join(bin, "postgres"), "-D", join(folder, "cluster"), ...flags];
  const [command = "", ...args] =
    process.platform === "win32" ? postgres : ["/bin/sh", "-c", WITH_LIFELINE, "sh", ...postgres];
  const path = join(folder, "log");
  const log = await open(path, "a", 0o600);
  const { size } = await log.stat();
  // A process group of its own: Ctrl-C in a terminal must not stop Postgres before the service has drained.
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
  for (let lock: Lock | undefined; lock?.pid !== child.pid || lock?.state !== "ready"; ) {
    if (hasExited) {
      await exited;
      return refusalIn((await readFile(path)).subarray(size).toString("utf8"), folder);
    }
    await sleep(20);
    lock = await readLock(folder);
  }
  // A process that is done need not wait for the server.
  child.unref();
  const stop = async () => {
    child.ref();
    child.kill("SIGINT");
    const timer = setTimeout(() => child.kill("SIGQUIT"), FAST_SHUTDOWN_MS);
    await exited;
    clearTimeout(timer);
  };
  let stopping: Promise<void> | undefined;
  return {
    url: `postgres://postgres:${await readFile(join(folder, "password"), "utf8")}@127.0.0.1:${port}/postgres`,
    port,
    pid: Number(child.pid),
    dataDir: folder,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

const FAST_SHUTDOWN_MS = 10_000;

function refusalIn(log: string, folder: string): "port taken" | "locked" {
  if (/could not create any TCP/.test(log)) return "port taken";
  if (/lock file ".*" (already exists|is empty)/.test(log)) return "locked";
  throw new Error(`PostgreSQL did not start in ${folder}.\n${log.trim().split("\n").slice(-8).join("\n")}`);
}

const IN_USE_AFTER_MS = 2_000;
const STOPPED_AFTER_MS = 60_000;

/** Waits a moment for the server that has the folder, which may be stopping. Throws if it has been there too long. */
async function waitForLock(folder: string, since: number): Promise<void> {
  await sleep(100);
  const lock = await readLock(folder);
  if (Date.now() - since < (lock?.state === "stopping" ? STOPPED_AFTER_MS : IN_USE_AFTER_MS)) return;
  if (lock && (await listens(lock.port))) throw inUse(folder);
  // A crash left it, and its process id has passed to another process: Postgres alone would refuse for ever.
  await rm(lockFile(folder), { force: true });
}

const inUse = (folder: string) =>
  new Error(`The database in ${folder} is in use by another process: stop that one first.`);

interface Lock {
  pid: number;
  port: number;
  /** "starting", "ready", "stopping" or "standby". */
  state: string;
}

const lockFile = (folder: string) => join(folder, "cluster", "postmaster.pid");

/** Postgres' lock file, if there is one, which `pg_ctl` reads in the same way. */
async function readLock(folder: string): Promise<Lock | undefined> {
  const file = await readFile(lockFile(folder), "utf8").catch(unless("ENOENT"));
  if (file === undefined) return undefined;
  const [pid, , , port, , , , state = ""] = file.split("\n");
  return { pid: Number(pid), port: Number(port) || 1, state: state.trim() };
}

/** The process id of a crashed server may have passed to another process, and its port as well. */
async function isInUse(folder: string): Promise<boolean> {
  const lock = await readLock(folder);
  return lock !== undefined && isRunning(lock.pid) && listens(lock.port);
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // It runs as another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

const listens = (port: number) =>
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
