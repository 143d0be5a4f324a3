import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { runTool } from "../abuse/tool.js";

const read = (name: string) => readFileSync(join(packageRoot(), name), "utf8");

const REGISTRY = "https://registry.npmjs.org/";

interface Locked {
  version?: string;
  resolved?: string;
  integrity?: string;
  link?: boolean;
}

test.each(["package-lock.json", ".ci/openapi-checks/package-lock.json"])(
  "%s pins every package to one version from the registry with its SHA-512",
  (name) => {
    const { packages } = JSON.parse(read(name)) as { packages: Record<string, Locked> };
    const installed = Object.entries(packages).filter(
      ([path, { link }]) => path.includes("node_modules/") && !link,
    );
    expect(installed.length).toBeGreaterThan(100);
    for (const [path, { version, resolved, integrity }] of installed) {
      expect(version, path).toMatch(/^\d+\.\d+\.\d+/);
      // If it is absent, the configured registry is used. Any other source is named here.
      expect(resolved ?? REGISTRY, path).toContain(REGISTRY);
      expect(integrity, path).toMatch(/^sha512-/);
    }
  },
);

test("Prisma's CLI installs neither its database server nor Prisma Studio", () => {
  const { packages } = JSON.parse(read("package-lock.json")) as { packages: Record<string, Locked> };
  const names = Object.keys(packages).filter((path) =>
    /node_modules\/@prisma\/(dev|studio-core)$/.test(path),
  );
  expect(names).toEqual(["node_modules/@prisma/dev", "node_modules/@prisma/studio-core"]);
  for (const name of names) expect(packages[name]).toEqual({ resolved: "prisma/cli-stub", link: true });
});

test("no install script of any package runs", async () => {
  const output = await runTool("npm", ["config", "get", "ignore-scripts", "--prefix", packageRoot()], 60);
  expect(output.trim().split("\n").at(0)).toBe("true");
});

test("every path that the release packs exists, and every document of gateway/docs is packed", () => {
  const { files } = JSON.parse(read("package.json")) as { files: string[] };
  // `npm run build` and `npm run release` create these. gateway/dev/pack.mjs copies the others as named: no globs.
  const created = ["dist", "npm-shrinkwrap.json"];
  for (const path of files.filter((name) => !created.includes(name)))
    expect(existsSync(join(packageRoot(), path)), path).toBe(true);
  const documents = readdirSync(join(packageRoot(), "gateway/docs")).filter((name) => name.endsWith(".md"));
  expect(files).toEqual(expect.arrayContaining(documents.map((name) => `gateway/docs/${name}`)));
});
