import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { runTool } from "../support/run-tool.js";

const read = (name: string) => readFileSync(join(packageRoot(), name), "utf8");

interface Locked {
  version?: string;
  resolved?: string;
  integrity?: string;
  link?: boolean;
}

/** The packages of a lock file by folder. */
const lockedIn = (name: string) =>
  Object.entries((JSON.parse(read(name)) as { packages: Record<string, Locked> }).packages).filter(
    ([path, { link }]) => path.includes("node_modules/") && !link,
  );

test.each(["package-lock.json", ".ci/openapi-checks/package-lock.json"])(
  "%s pins every package to one version with its SHA-512, and names no registry",
  (name) => {
    const locked = lockedIn(name);
    expect(locked.length).toBeGreaterThan(100);
    for (const [path, { version, resolved, integrity }] of locked) {
      expect(version, path).toMatch(/^\d+\.\d+\.\d+/);
      expect(integrity, path).toMatch(/^sha512-/);
      expect(resolved, `${path}: see omit-lockfile-registry-resolved in .npmrc`).toBeUndefined();
    }
    expect(read(name)).not.toMatch(/"resolved": "[^"]*:/);
  },
);

/** Licenses that allow a closed product to contain the package if it includes the license text. */
const PERMISSIVE = ["MIT", "MIT-0", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "BlueOak-1.0.0", "0BSD"];

test("every package in the release has a permissive license", () => {
  const bundled = read("dist/LICENSES").match(/^\S+ \d+\.\d+\.\d+\S* \(.*\)$/gm) ?? [];
  expect(bundled.length).toBeGreaterThan(100);
  const isPermissive = (line: string) => PERMISSIVE.some((license) => line.endsWith(`(${license})`));
  expect(bundled.filter((line) => !isPermissive(line))).toEqual([]);
});

test("no install script of any package runs", async () => {
  const output = await runTool("npm", ["config", "get", "ignore-scripts", "--prefix", packageRoot()], 60);
  expect(output.trim().split("\n").at(0)).toBe("true");
});

test("every path that the release packs exists, and every document of gateway/docs is packed", () => {
  const { files } = JSON.parse(read("package.json")) as { files: string[] };
  // `npm run build` and `npm run release` create these. gateway/build/pack.mjs copies the others as named: no globs.
  const created = ["dist", "sbom.cdx.json"];
  for (const path of files.filter((name) => !created.includes(name)))
    expect(existsSync(join(packageRoot(), path)), path).toBe(true);
  const documents = readdirSync(join(packageRoot(), "gateway/docs")).filter((name) => name.endsWith(".md"));
  expect(files).toEqual(expect.arrayContaining(documents.map((name) => `gateway/docs/${name}`)));
});
