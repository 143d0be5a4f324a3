import { execFile } from "node:child_process";
import { readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { type ProcessResult, spawnNode } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";
import type { Spawn } from "../support/service-process.js";

const run = promisify(execFile);

/** The last commit of the version before this one. See "The version" in CONTRIBUTING.md. */
const PREVIOUS_COMMIT = "d23c9589e022f97af329b1ed24d3ab9a4692c2ac";

/** The field that `buildNextVersion` adds to `FormV1`. */
const NEW_FIELD = "drillNote";

/** A built version of the service. */
export class Version {
  readonly name: string;
  readonly folder: string;

  constructor(name: string, folder: string) {
    this.name = name;
    this.folder = folder;
  }

  /** Starts `guest-forms` of this version. */
  readonly spawn: Spawn = (args, options) =>
    spawnNode([join(this.folder, "gateway/guest-forms.cjs"), ...args], options);

  /** The fields of `FormV1` in its OpenAPI document. */
  async formFields(): Promise<string[]> {
    const { components } = JSON.parse(await readFile(join(this.folder, "gateway/openapi/openapi.json"), "utf8"));
    return Object.keys(components.schemas.FormV1.properties);
  }

  /** Runs a command with --json and returns its result. */
  async json<Result>(args: string[], env: Record<string, string>): Promise<Result> {
    const { code, stdout, stderr }: ProcessResult = await this.spawn([...args, "--json"], { env }).done;
    expect(code, `${args.join(" ")}: ${stdout}${stderr}`).toBe(0);
    return JSON.parse(stdout);
  }
}

export const currentVersion = new Version("this version", packageRoot());

/** Builds the previous version from the history of this repository. */
export async function buildPreviousVersion(): Promise<Version> {
  const folder = await makeTempFolder("previous");
  await run("git", ["cat-file", "-e", PREVIOUS_COMMIT], { cwd: packageRoot() }).catch(() => {
    throw new Error(`The commit ${PREVIOUS_COMMIT} is missing: run git fetch --unshallow.`);
  });
  await run("sh", ["-c", 'git archive "$0" | tar -x -C "$1"', PREVIOUS_COMMIT, folder], { cwd: packageRoot() });
  const [old, current] = await Promise.all(
    [folder, packageRoot()].map((each) => readFile(join(each, "package-lock.json"), "utf8")),
  );
  if (old === current) await symlink(join(packageRoot(), "node_modules"), join(folder, "node_modules"));
  else await run("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder });
  await run("npm", ["run", "build"], { cwd: folder });
  return new Version("the previous version", folder);
}

/**
 * Builds a later version as a developer would, after "Add a nullable public field" in CONTRIBUTING.md: this one
 * with a new field, and an index on its column. `databaseUrl` is for `npm run migration`.
 */
export async function buildNextVersion(databaseUrl: string): Promise<Version> {
  const folder = await makeTempFolder("next");
  const copy = 'git ls-files -z | tar --null --files-from=- --create | tar --extract --directory "$0"';
  await run("sh", ["-c", copy, folder], { cwd: packageRoot() });
  await symlink(join(packageRoot(), "node_modules"), join(folder, "node_modules"));
  const schema = join(folder, "prisma/schema.prisma");
  const index = "  @@index([checkInDate])\n";
  await replaceOnce(schema, index, `  ${NEW_FIELD} String? @map("drill_note")\n\n${index}`);
  await replaceOnce(
    join(folder, "server/forms/schema.ts"),
    "    createdAt: instantOut.meta({\n",
    `    ${NEW_FIELD}: z.string().nullable().meta({ description: "A note.", example: null }),\n    createdAt: instantOut.meta({\n`,
  );
  await replaceOnce(
    join(folder, "server/forms/write-form.ts"),
    "      numberOfPets: null,\n",
    `      numberOfPets: null,\n      ${NEW_FIELD}: null,\n`,
  );
  await writeMigration(folder, databaseUrl, "drill_note");
  await replaceOnce(schema, index, `  @@index([${NEW_FIELD}])\n${index}`);
  const [written = ""] = /\S+_index(?=:)/.exec(await writeMigration(folder, databaseUrl, "drill_note_index")) ?? [];
  await replaceOnce(join(written, "migration.sql"), "CREATE INDEX", "CREATE INDEX CONCURRENTLY");
  for (const script of ["generate", "build"]) await run("npm", ["run", script], { cwd: folder });
  return new Version("the next version", folder);
}

/** Runs `npm run migration`, and returns its output. */
async function writeMigration(folder: string, databaseUrl: string, name: string): Promise<string> {
  const env = { ...process.env, DATABASE_URL: databaseUrl };
  return (await run("npm", ["run", "migration", "--", name], { cwd: folder, env })).stdout;
}

async function replaceOnce(path: string, from: string, to: string): Promise<void> {
  const text = await readFile(path, "utf8");
  expect(text.split(from), `${path}: ${from}`).toHaveLength(2);
  await writeFile(path, text.replace(from, to));
}
