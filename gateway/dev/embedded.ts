import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chown, open, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { attemptFolder, type Home, isAlive, prepareHome, unlessMissing } from "./embedded-home.js";

export interface EmbeddedOptions {
  /** Folder of its own for the database; made where it is missing, kept from start to start. */
  dataDir: string;
  /** Port wanted on 127.0.0.1; a free one is taken where it is not free, or not given. */
  port?: number;
  /** Postgres settings by name. */
  settings?: Record<string, string>;
  /** False trades the data's survival of a crash for speed. */
  durable: boolean;
  /** Called with one line for each thing worth telling a person. */
  onProgress?: (line: string) => void;
}

export interface EmbeddedServer {
  /** postgres:// address of the superuser and the database "postgres". */
  url: string;
  port: number;
  /** The folder in use; not the wanted one where the server's user cannot reach that. */
  dataDir: string;
  /** The server's process id. */
  pid: number;
  /** Ends all sessions and the server; at once where it has ended already. */
  stop(): Promise<void>;
}

/**
 * Starts the PostgreSQL that npm installed. One process at a time has a data folder: what another, killed one left
 * running there is stopped first. The server outlives its parent's signals, until `stop`. Throws an Error of one
 * sentence, followed by the last lines of Postgres' log where that says more.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const { dataDir, onProgress = () => {} } = options;
  try {
    const home = await prepareHome(dataDir, onProgress);
    await initialise(home, options.durable, onProgress);
    for (let port = options.port ?? 0, tries = 1; ; tries++) {
      if (await stopLeftBehind(home))
        onProgress("Stopped the PostgreSQL that a killed process left running.");
      const outcome = await launch(home, await freePort(port), options);
      if (typeof outcome === "object") return outcome;
      if (tries === 5)
        throw new Error(`PostgreSQL did not start in ${home.folder}.\n${await lastLines(home.log)}`);
      if (outcome === "port taken") port = 0;
      else await sleep(100);
    }
  } catch (error) {
    throw explained(error, dataDir);
  }
}

/** Stops what a killed process left running in that folder. False where nothing runs; throws where it is in use. */
export async function stopAbandoned(dataDir: string): Promise<boolean> {
  const password = await readFile(join(dataDir, "password"), "utf8").catch(unlessMissing);
  if (!password) return false;
  return stopLeftBehind({ folder: dataDir, cluster: join(dataDir, "cluster"), password });
}

async function initialise(home: Home, durable: boolean, onProgress: (line: string) => void): Promise<void> {
  const { cluster, binaries, user, password } = home;
  if (await readFile(join(cluster, "PG_VERSION"), "utf8").catch(unlessMissing)) return;
  onProgress(`Creating a database in ${home.folder}.`);
  // Elsewhere, then renamed: what was cut short is never taken for a database.
  const attempt = await attemptFolder(home);
  try {
    const draft = join(attempt, "cluster");
    const secret = join(attempt, "password");
    await writeFile(secret, password, { mode: 0o600 });
    if (user) await chown(secret, user.uid, user.gid);
    const args = [
      ...["--pgdata", draft, "--username", SUPERUSER, "--auth", "scram-sha-256", "--pwfile", secret],
      ...[
        "--encoding",
        "UTF8",
        "--locale",
        "C",
        "--locale-provider",
        "builtin",
        "--builtin-locale",
        "C.UTF-8",
      ],
      ...["--no-instructions", ...(durable ? [] : ["--no-sync"])],
    ];
    const child = spawn(binaries.initdb, args, { ...as(home), stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => {
        said += chunk;
      });
    const [code] = await once(child, "close");
    if (code !== 0)
      throw new Error(`PostgreSQL could not create a database in ${home.folder}.\n${tail(said)}`);
    await rename(draft, cluster).catch((error: NodeJS.ErrnoException) => {
      // Another process was first.
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(attempt, { recursive: true, force: true });
  }
}

const SUPERUSER = "postgres";
const NOT_DURABLE = { fsync: "off", synchronous_commit: "off", full_page_writes: "off" };

/** How to spawn as the server's user: the working directory of the caller may be closed to it. */
function as({ user }: Home) {
  const env = Object.entries(process.env).filter(
    ([name]) => !name.startsWith("PG") && !name.startsWith("LC_"),
  );
  const who = user ? { uid: user.uid, gid: user.gid } : {};
  return { ...who, cwd: process.platform === "win32" ? process.cwd() : "/", env: Object.fromEntries(env) };
}

async function launch(
  home: Home,
  port: number,
  { durable, settings = {}, onProgress = () => {} }: EmbeddedOptions,
): Promise<EmbeddedServer | "port taken" | "running already"> {
  const all = {
    ...(durable ? {} : NOT_DURABLE),
    ...settings,
    listen_addresses: "127.0.0.1",
    port: String(port),
    // The path of a socket may have about a hundred characters, which a data folder's easily exceeds.
    unix_socket_directories: "",
  };
  const args = [
    "-D",
    home.cluster,
    ...Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
  ];
  const log = await openLog(home);
  // In a process group of its own: Ctrl-C in a terminal must not take the database from a server that is draining.
  const child = spawn(home.binaries.postgres, args, {
    ...as(home),
    detached: true,
    stdio: ["ignore", log.fd, log.fd],
  });
  const exited = new Promise<undefined>((resolve, reject) => {
    child.once("exit", () => resolve(undefined));
    child.once("error", reject);
  });
  await log.close();
  const url = addressOf(port, home.password);
  const owner = await Promise.race([own(url, child), exited]).catch((error) => {
    child.kill("SIGQUIT");
    throw error;
  });
  // Another process was faster, and took this server for one left behind.
  if (owner === "in use") throw inUse(home.folder);
  if (!owner) {
    const said = await log.said();
    if (/could not (bind|create any TCP)/.test(said)) return "port taken";
    if (/lock file ".*" (already exists|is empty)/.test(said)) return "running already";
    if (/received fast shutdown request/.test(said)) throw inUse(home.folder);
    throw new Error(`PostgreSQL did not start in ${home.folder}.\n${tail(said)}`);
  }
  return serve(home, url, port, child, exited, owner, onProgress);
}

const LOG_MAX_BYTES = 1_000_000;

async function openLog({ log }: Home) {
  const file = await open(log, "a", 0o600);
  if ((await file.stat()).size > LOG_MAX_BYTES) await file.truncate();
  const { size } = await file.stat();
  return {
    fd: file.fd,
    close: () => file.close(),
    /** What was written since. */
    said: async () => (await readFile(log)).subarray(size).toString("utf8"),
  };
}

function serve(
  home: Home,
  url: string,
  port: number,
  child: ChildProcess,
  exited: Promise<undefined>,
  first: pg.Client,
  onProgress: (line: string) => void,
): EmbeddedServer {
  const pid = Number(child.pid);
  let stopping: Promise<void> | undefined;
  let owner = first;
  // A crash of one session ends all of them, the owner's too, and Postgres goes on.
  const keep = async (): Promise<void> => {
    unref(owner);
    await new Promise((resolve) => owner.once("end", resolve));
    while (!stopping && isRunning(child)) {
      const next = await tryConnect(url);
      if (typeof next !== "string") {
        if (await takeOwnership(next).catch(() => false)) {
          owner = next;
          return keep();
        }
        await next.end().catch(() => {});
      }
      await sleep(50, undefined, { ref: false });
    }
  };
  void keep();
  void exited.then(async () => {
    if (!stopping) onProgress(`The embedded PostgreSQL has ended by itself.\n${await lastLines(home.log)}`);
  });
  // The server does not hold up the end of a process that is done.
  child.unref();
  return {
    url,
    port,
    pid,
    dataDir: home.folder,
    stop() {
      stopping ??= (async () => {
        child.ref();
        await owner.end().catch(() => {});
        if (isRunning(child)) await shutDown(pid, exited);
      })();
      return stopping;
    },
  };
}

// pg has it, its types do not.
const unref = (client: pg.Client) => (client as pg.Client & { unref(): void }).unref();

const isRunning = (child: ChildProcess) =>
  child.pid !== undefined && child.exitCode === null && child.signalCode === null;

const FAST_SHUTDOWN_MS = 10_000;
const CRASH_SHUTDOWN_MS = 5_000;

async function shutDown(pid: number, gone: Promise<unknown>): Promise<void> {
  for (const [signal, wait] of [
    ["SIGINT", FAST_SHUTDOWN_MS],
    ["SIGQUIT", CRASH_SHUTDOWN_MS],
    ["SIGKILL", CRASH_SHUTDOWN_MS],
  ] as const) {
    if (!isAlive(pid)) return;
    process.kill(pid, signal);
    const timer = new AbortController();
    const late = sleep(wait, "late", { signal: timer.signal }).catch(() => {});
    const ended = (await Promise.race([gone, late])) !== "late";
    timer.abort();
    if (ended) return;
  }
  throw new Error(`PostgreSQL, process ${pid}, does not end.`);
}

/** The owner's connection; nothing where the server ended before it was owned. */
async function own(url: string, child: ChildProcess): Promise<pg.Client | "in use" | undefined> {
  for (;;) {
    const client = await connectOnceReady(url, child);
    if (!client) return undefined;
    const ours = await takeOwnership(client);
    if (ours) return client;
    await client.end().catch(() => {});
    if (ours === false) return "in use";
  }
}

const READY_MS = 60_000;

async function connectOnceReady(url: string, child: ChildProcess): Promise<pg.Client | undefined> {
  for (const since = Date.now(); isRunning(child); await sleep(20)) {
    const client = await tryConnect(url);
    if (typeof client !== "string") return client;
    if (Date.now() - since > READY_MS) {
      child.kill("SIGQUIT");
      throw new Error(`PostgreSQL started, but lets nobody in: ${client}`);
    }
  }
  return undefined;
}

/** A connection, or why there is none. */
async function tryConnect(url: string): Promise<pg.Client | string> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 2_000,
    application_name: "guest-forms owner",
    ssl: false,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    return client;
  } catch (error) {
    await client.end().catch(() => {});
    return error instanceof Error ? error.message : String(error);
  }
}

/** Any number, the same in every version of this package. */
const OWNER_LOCK = 7_270_731_555;

/**
 * Whether the server is this process's now; undefined where the connection was lost before the answer. Held as long as
 * the process lives that started the server: its end, however sudden, closes the connection.
 */
async function takeOwnership(client: pg.Client): Promise<boolean | undefined> {
  const lock = client.query<{ got: boolean }>("SELECT pg_try_advisory_lock($1) AS got", [OWNER_LOCK]);
  return lock.then(
    ({ rows }) => rows[0]?.got,
    (error) => {
      if (error instanceof pg.DatabaseError && error.severity === "ERROR") throw error;
      return undefined;
    },
  );
}

const ANSWER_MS = 15_000;

async function stopLeftBehind({ folder, cluster, password }: Pick<Home, "folder" | "cluster" | "password">) {
  let left: PidFile | undefined;
  for (const since = Date.now(); ; await sleep(100)) {
    left = await readPidFile(cluster);
    if (!left || !(await isPostmaster(left.pid, cluster))) break;
    const client = await tryConnect(addressOf(left.port, password));
    if (typeof client !== "string") {
      const ours = await takeOwnership(client);
      if (ours) await shutDown(left.pid, ended(left.pid, cluster));
      await client.end().catch(() => {});
      if (ours) return true;
      if (ours === false) throw inUse(folder);
      // Lost on the way: another process is stopping that server.
    }
    if (Date.now() - since > ANSWER_MS) {
      throw new Error(
        `PostgreSQL, process ${left.pid}, runs in ${folder} but lets nobody in: stop it first (${typeof client === "string" ? client : "the connection is lost"}).`,
      );
    }
  }
  // Postgres refuses to start where another process has come to bear the id of its predecessor.
  const same = left && (await readPidFile(cluster))?.pid === left.pid;
  if (same && isAlive(left?.pid ?? 0)) await rm(join(cluster, "postmaster.pid"), { force: true });
  return false;
}

const addressOf = (port: number, password: string) =>
  `postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/postgres`;

const inUse = (folder: string) =>
  new Error(`The database in ${folder} is in use by another process: stop that one first.`);

interface PidFile {
  pid: number;
  port: number;
}

async function readPidFile(cluster: string): Promise<PidFile | undefined> {
  const file = await readFile(join(cluster, "postmaster.pid"), "utf8").catch(unlessMissing);
  const [pid, , , port] = file?.split("\n").map(Number) ?? [];
  return pid ? { pid, port: port || 1 } : undefined;
}

async function ended(pid: number, cluster: string): Promise<void> {
  while (await isPostmaster(pid, cluster)) await sleep(20);
}

// An id alone may have passed to another process, or to one that ended and that nobody has asked for.
async function isPostmaster(pid: number, cluster: string): Promise<boolean> {
  if (!isAlive(pid)) return false;
  if (process.platform === "win32") return true;
  const command = await commandOf(pid);
  return command.includes("postgres") && command.includes(cluster);
}

async function commandOf(pid: number): Promise<string> {
  if (process.platform === "linux") return readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  const ps = spawn("ps", ["-ww", "-o", "command=", "-p", String(pid)], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  let said = "";
  ps.stdout.on("data", (chunk) => {
    said += chunk;
  });
  await once(ps, "close");
  return said;
}

/** That port of 127.0.0.1 where it is free, or else any that is. */
async function freePort(wanted: number): Promise<number> {
  const listener = createServer();
  try {
    listener.listen(wanted, "127.0.0.1");
    await once(listener, "listening");
    const address = listener.address();
    return typeof address === "object" && address ? address.port : 0;
  } catch (error) {
    if (wanted === 0) throw error;
    return freePort(0);
  } finally {
    listener.close();
  }
}

const lastLines = async (log: string) => tail(await readFile(log, "utf8").catch(() => ""));
const tail = (text: string) => text.trim().split("\n").slice(-8).join("\n");

const CAUSES: Record<string, string> = {
  ENOSPC: "there is no space left",
  EDQUOT: "the disk quota is used up",
  EACCES: "permission is denied",
  EPERM: "permission is denied",
  EROFS: "the file system is read-only",
  // What Node makes of a read-only file system, among others, when it makes folders.
  ENOENT: "it cannot be made",
  ENOTDIR: "a part of that path is no folder",
};

function explained(error: unknown, dataDir: string): Error {
  const { code = "", path } = error as NodeJS.ErrnoException;
  const cause = CAUSES[code];
  if (!cause) return error instanceof Error ? error : new Error(String(error));
  return new Error(`Cannot keep a database in ${dataDir}: ${cause}${path ? ` (${path})` : ""}.`, {
    cause: error,
  });
}
