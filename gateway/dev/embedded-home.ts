import { createHash, randomBytes } from "node:crypto";
import { chmod, chown, link, lstat, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";
import { type Binaries, type OsUser, readyBinaries, succeedsAs, unlessExists } from "./embedded-binaries.js";

/** Where an embedded database lives, what runs it, and as whom. */
export interface Home {
  /** Holds all of the below; nobody but the caller and `user` gets in. */
  folder: string;
  /** Postgres' data directory. */
  cluster: string;
  /** Postgres' output since its last start. */
  log: string;
  password: string;
  binaries: Binaries;
  /** Set where the caller is root, as whom Postgres refuses to run. */
  user: OsUser | undefined;
}

/** Makes the folder, its password and the binaries ready. Safe in several processes at once. */
export async function prepareHome(dataDir: string, onProgress: (line: string) => void): Promise<Home> {
  const wanted = resolve(dataDir);
  const user = process.getuid?.() === 0 ? await serverUser(wanted) : undefined;
  const folder = await reachable(wanted, user, onProgress);
  const spare = async () => (user ? projectFolder() : folder);
  const binaries = await readyBinaries(user, spare, onProgress);
  return {
    folder,
    cluster: join(folder, "cluster"),
    log: join(folder, "log"),
    password: await passwordOf(folder),
    binaries,
    user,
  };
}

// A database that an ordinary user made stays that user's.
async function serverUser(folder: string): Promise<OsUser> {
  const cluster = await stat(join(folder, "cluster")).catch(() => undefined);
  if (cluster && cluster.uid !== 0) {
    return { name: `the owner of ${folder}`, uid: cluster.uid, gid: cluster.gid };
  }
  const lines = (await readFile("/etc/passwd", "utf8").catch(() => "")).split("\n");
  for (const name of ["postgres", "_postgres", "nobody"]) {
    const [, , uid, gid] = lines.find((line) => line.startsWith(`${name}:`))?.split(":") ?? [];
    if (uid && gid && uid !== "0") return { name, uid: Number(uid), gid: Number(gid) };
  }
  throw new Error(
    "PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as: run the command as an ordinary user, or set DATABASE_URL.",
  );
}

async function reachable(
  wanted: string,
  user: OsUser | undefined,
  onProgress: (line: string) => void,
): Promise<string> {
  await openFolder(wanted, user);
  if (!user || succeedsAs(user, 'cd "$1"', wanted)) return wanted;
  const folder = join(await projectFolder(), `data-${hash(wanted)}`);
  onProgress(
    `The database is kept in ${folder}: the user ${user.name}, who runs it, cannot reach ${wanted}.`,
  );
  await openFolder(folder, user);
  return folder;
}

/** Root's stable folder for what the server's user cannot reach in this checkout. */
async function projectFolder(): Promise<string> {
  const folder = `/var/tmp/guest-forms-${hash(packageRoot())}`;
  await mkdir(folder).catch(unlessExists);
  const found = await lstat(folder);
  // Anybody may make folders there.
  if (!found.isDirectory() || found.uid !== 0) {
    throw new Error(`${folder} is in the way: remove it, it belongs to another user.`);
  }
  await chmod(folder, 0o755);
  return folder;
}

const hash = (path: string) => createHash("sha256").update(path).digest("hex").slice(0, 16);

const OURS = /^(password|log|new-|postgres-)/;

async function openFolder(folder: string, user: OsUser | undefined): Promise<void> {
  const made = await mkdir(folder, { recursive: true, mode: 0o755 });
  const names = made ? [] : await readdir(folder);
  if (names.includes("cluster")) return;
  const foreign = names.find((name) => !OURS.test(name));
  if (foreign) throw new Error(`${folder} holds other things than a database, such as ${foreign}.`);
  if (user) await admit(folder, user);
  else await chmod(folder, 0o700);
}

// Closed to others; owned by root, so that the other user cannot lead root's writing elsewhere.
async function admit(folder: string, { gid }: OsUser): Promise<void> {
  await chown(folder, 0, gid);
  await chmod(folder, 0o750);
}

/** The superuser's password, made at the first start. */
async function passwordOf(folder: string): Promise<string> {
  const file = join(folder, "password");
  const known = await readFile(file, "utf8").catch(unlessMissing);
  if (known) return known;
  const draft = join(folder, `password-${randomBytes(4).toString("hex")}`);
  try {
    await writeFile(draft, randomBytes(24).toString("base64url"), { mode: 0o600, flag: "wx" });
    // A link appears whole, and never replaces the password of another process that was first.
    await link(draft, file).catch(unlessExists);
  } finally {
    await rm(draft, { force: true });
  }
  return readFile(file, "utf8");
}

/** Makes a folder for one attempt at something, for the server's user to write in; removes those of dead processes. */
export async function attemptFolder({ folder, user }: Home): Promise<string> {
  for (const name of await readdir(folder)) {
    const pid = /^new-(\d+)-/.exec(name)?.[1];
    if (pid && !isAlive(Number(pid))) await rm(join(folder, name), { recursive: true, force: true });
  }
  const attempt = join(folder, `new-${process.pid}-${randomBytes(4).toString("hex")}`);
  await mkdir(attempt, { mode: 0o700 });
  if (user) await chown(attempt, user.uid, user.gid);
  return attempt;
}

/** Whether a process of that id runs, whoever owns it. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** For `catch`: a missing file is undefined. */
export function unlessMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}
