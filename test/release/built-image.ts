import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { cp, mkdir, stat } from "node:fs/promises";
import { basename, join, posix, relative } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";
import { type RunningProcess, spawnNode } from "../support/processes.js";

/** `node`, which the base image adds. */
const USER_ID = 1000;

interface Instruction {
  /** Such as `COPY`. */
  name: string;
  value: string;
}

const read = (name: string) => readFileSync(join(packageRoot(), name), "utf8");

/** The instructions of the Dockerfile, in order. */
export const readInstructions = (): Instruction[] =>
  read("Dockerfile")
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [name = ""] = line.split(" ", 1);
      return { name, value: line.slice(name.length).trim() };
    });

/** Paths that `.dockerignore` leaves out of folders that it includes. */
const readIgnoredPaths = (): string[] =>
  read(".dockerignore")
    .split("\n")
    .filter((line) => /^[^!#*]/.test(line));

export interface BuiltImage {
  /** Has the files of its last stage. */
  root: string;
  workdir: string;
  user: string;
  env: Record<string, string>;
}

/**
 * Runs the instructions of the Dockerfile without a container engine, with the programs of this machine. Each stage has its
 * files in a folder in `folder`.
 */
export async function buildImage(folder: string): Promise<BuiltImage> {
  const roots = new Map<string, string>();
  const args: Record<string, string> = {};
  let image: BuiltImage = { root: "", workdir: "/", user: "root", env: {} };
  for (const { name, value } of readInstructions()) {
    if (name === "FROM") {
      const root = join(folder, `stage-${roots.size}`);
      await mkdir(join(root, "opt"), { recursive: true });
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

async function runStep(command: string, { root, workdir, env }: BuiltImage, args: Record<string, string>) {
  const inFolder = command.replaceAll(" /opt/", ` ${root}/opt/`);
  const { HOME = "/root", PATH } = process.env;
  const options = { cwd: join(root, workdir), env: { HOME, PATH, ...args, ...env }, maxBuffer: 64 << 20 };
  await promisify(execFile)("sh", ["-euc", inFolder], options);
}

/** Makes every mounted file system read-only. */
const READ_ONLY =
  'findmnt -rno TARGET | while read -r path; do mount -o remount,ro,bind "$path" 2>/dev/null || true; done';

/** Runs a program as the image's user, without capabilities, on read-only file systems. Needs root. */
export function spawnInImage(
  { root, workdir, env: imageEnv, user }: BuiltImage,
  args: string[],
  env: Record<string, string> = {},
): RunningProcess {
  if (user !== "node") throw new Error(`The image runs as ${user}.`);
  const id = `--reuid=${USER_ID} --regid=${USER_ID} --clear-groups --bounding-set=-all --no-new-privs`;
  // In its own mount namespace, which ends with the command.
  const script = `${READ_ONLY}; exec setpriv ${id} sh -euc 'cd "$0"; ! touch /tmp/x 2>/dev/null; exec "$@"' "$0" "$@"`;
  const commandPrefix = ["unshare", "--mount", "--propagation=private", "sh", "-euc", script, join(root, workdir)];
  return spawnNode(args, { env: { ...imageEnv, HOME: "/", TMPDIR: "/tmp", ...env }, commandPrefix });
}

export const canRunImages = process.getuid?.() === 0;
