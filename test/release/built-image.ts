import { execFile } from "node:child_process";
import { chmod, cp, lstat, mkdir, readlink, stat, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join, posix, relative } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";
import { type RunningProcess, spawnNode } from "../support/processes.js";
import { readIgnoredPaths, readInstructions } from "./dockerfile.js";

const run = promisify(execFile);

/** Folders of this machine that take the place of those in the base image. */
const SYSTEM_FOLDERS = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/run", "/proc"];
/** Other folders of the base image. Everyone may write to them, as far as the mounts allow it. */
const OPEN_FOLDERS = ["/tmp", "/var/tmp", "/opt"];
const DEVICES = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];
/** `node`, which the base image adds. */
const USER_ID = 1000;

interface BuiltImage {
  /** The root of its file system. */
  root: string;
  workdir: string;
  user: string;
  env: Record<string, string>;
}

/**
 * Runs the instructions of the Dockerfile without a container engine, in a root file system in `folder` with the programs of
 * this machine. Needs root.
 */
export async function buildImage(folder: string): Promise<BuiltImage> {
  const roots = new Map<string, string>();
  const args: Record<string, string> = {};
  let image: BuiltImage = { root: "", workdir: "/", user: "root", env: {} };
  for (const { name, value } of readInstructions()) {
    if (name === "FROM") {
      const root = join(folder, `stage-${roots.size}`);
      await makeRoot(root);
      roots.set(/ AS (\w+)$/.exec(value)?.[1] ?? "", root);
      image = { ...image, root, workdir: "/", env: {} };
    } else if (name === "ARG") Object.assign(args, parseVariables(value));
    else if (name === "ENV") Object.assign(image.env, parseVariables(value));
    else if (name === "WORKDIR") {
      image.workdir = value;
      await mkdir(join(image.root, value), { recursive: true });
    } else if (name === "COPY") await copy(value, image, roots);
    else if (name === "RUN") await runStep(value, image, args);
    else if (name === "USER") image.user = value;
    else if (!["EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"].includes(name))
      throw new Error(`Unknown instruction: ${name}`);
  }
  return image;
}

/** Makes the folders and files on which the system is mounted. */
async function makeRoot(root: string): Promise<void> {
  for (const path of OPEN_FOLDERS) {
    await mkdir(join(root, path), { recursive: true });
    await chmod(join(root, path), 0o1777);
  }
  for (const path of [...SYSTEM_FOLDERS, "/dev"]) {
    const isLink = (await lstat(path)).isSymbolicLink();
    if (isLink) await symlink(await readlink(path), join(root, path));
    else await mkdir(join(root, path));
  }
  for (const path of DEVICES) await writeFile(join(root, path), "");
}

const parseVariables = (text: string): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(/(\w+)=(?:"([^"]*)"|(\S*))/g)].map(([, name, quoted, bare]) => [name, quoted ?? bare]),
  );

/** `COPY [--from=STAGE] SOURCE… TARGET`. Copies the content of a folder, as Docker does. */
async function copy(value: string, { root, workdir }: BuiltImage, roots: Map<string, string>): Promise<void> {
  const [, stage, paths = ""] = /^(?:--from=(\w+) )?(.+)$/.exec(value) ?? [];
  const from = stage === undefined ? packageRoot() : String(roots.get(stage));
  const sources = paths.split(" ");
  const target = join(root, posix.resolve(workdir, sources.pop() ?? ""));
  const ignored = stage === undefined ? readIgnoredPaths() : [];
  for (const source of sources) {
    const path = join(from, source);
    const isFolder = (await stat(path)).isDirectory();
    await cp(path, isFolder ? target : join(target, basename(source)), {
      recursive: true,
      verbatimSymlinks: true,
      filter: (each) => !ignored.includes(relative(from, each)),
    });
  }
}

const mounts = (root: string, writable: boolean) => [
  `mount --bind ${root} ${root}`,
  ...(writable ? [] : [`mount -o remount,ro,bind ${root}`]),
  ...SYSTEM_FOLDERS.flatMap((path) => [
    `if [ ! -L ${root}${path} ]; then mount --rbind ${path} ${root}${path}; mount -o remount,ro,bind ${root}${path}; fi`,
  ]),
  ...DEVICES.map((path) => `mount --bind ${path} ${root}${path}`),
];

// In its own mount namespace, which ends with the command.
const inNamespace = (commands: string[]) => [
  "unshare",
  "--mount",
  "--propagation=private",
  "sh",
  "-euc",
  commands.join("\n"),
  "sh",
];

/** Runs a step as root, with the home folder of this machine, because npm reads its settings and cache there. */
async function runStep(command: string, { root, workdir, env }: BuiltImage, args: Record<string, string>) {
  const { HOME = "/root", PATH } = process.env;
  const [program = "", ...rest] = inNamespace([
    ...mounts(root, true),
    `mkdir -p ${root}${HOME}`,
    `mount --rbind ${HOME} ${root}${HOME}`,
    `exec chroot ${root} sh -euc 'cd "$0" && eval "$1"' ${workdir} "$1"`,
  ]);
  await run(program, [...rest, command], { env: { HOME, PATH, ...args, ...env }, maxBuffer: 64 << 20 });
}

/** Runs Node with these arguments as the image's user, without capabilities, on a read-only file system. */
export function spawnInImage(
  { root, workdir, env: imageEnv, user }: BuiltImage,
  args: string[],
  env: Record<string, string> = {},
  { hasTmp = true }: { hasTmp?: boolean | undefined } = {},
): RunningProcess {
  if (user !== "node") throw new Error(`The image runs as ${user}.`);
  const id = `--reuid=${USER_ID} --regid=${USER_ID} --clear-groups`;
  const commandPrefix = inNamespace([
    ...mounts(root, false),
    ...(hasTmp ? [`mount -t tmpfs -o mode=1777,size=16m tmpfs ${root}/tmp`] : []),
    `exec chroot ${root} setpriv ${id} --bounding-set=-all --no-new-privs sh -euc 'cd "$0" && exec "$@"' ${workdir} "$@"`,
  ]);
  return spawnNode(args, { env: { ...imageEnv, HOME: "/", TMPDIR: "/tmp", ...env }, commandPrefix });
}

/** The folder of Node.js must be in one of these. */
export const canRunImages =
  process.getuid?.() === 0 && SYSTEM_FOLDERS.includes(`/${dirname(process.execPath).split("/")[1]}`);
