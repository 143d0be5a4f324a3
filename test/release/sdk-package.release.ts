import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { build } from "esbuild";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { describe, expect, test } from "vitest";
import { root, SdkUse } from "./sdk.js";

// The SDK as it is published.
const use = new SdkUse((self) => self.packSdk());

describe("the package", () => {
  test("the tarball contains only the build, the sources and the documents, and has no dependencies", async () => {
    const listed = await use.succeed(use.folder, "tar", "-tzf", use.tarball);
    const files = listed
      .trim()
      .split("\n")
      .map((path) => path.replace("package/", ""));
    const built = /^(dist\/(esm|cjs)\/[a-z-]+(\.d\.ts|\.js)(\.map)?|src\/[a-z-]+\.ts)$/;
    expect(files.filter((path) => !built.test(path)).sort()).toEqual([
      "CHANGELOG.md",
      "LICENSE",
      "README.md",
      "dist/cjs/package.json",
      "package.json",
    ]);
    const manifest = JSON.parse(await readFile(join(use.clone, "package.json"), "utf8"));
    expect(manifest).not.toHaveProperty("dependencies");
    expect(manifest).not.toHaveProperty("peerDependencies");
    expect(manifest.sideEffects).toBe(false);
    for (const map of files.filter((path) => path.endsWith(".map"))) {
      const { sources } = JSON.parse(await readFile(join(use.clone, map), "utf8")) as { sources: string[] };
      expect(files).toEqual(expect.arrayContaining(sources.map((source) => join(dirname(map), source))));
    }
  });

  test("the SDK pins the TypeScript version of the repository", async () => {
    const { devDependencies } = JSON.parse(await readFile(join(use.clone, "package.json"), "utf8"));
    const repository = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
    expect(devDependencies).toEqual({ typescript: repository.devDependencies.typescript });
  });

  test("the browser bundle is at most 6,000 bytes minified and gzipped", async () => {
    const { outputFiles } = await build({
      entryPoints: [join(use.clone, "dist/esm/index.js")],
      bundle: true,
      minify: true,
      format: "esm",
      platform: "browser",
      write: false,
    });
    const size = gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length;
    console.log(`@guest-forms/sdk: ${size} bytes minified and gzipped`);
    expect(size).toBeLessThanOrEqual(6_000);
    expect(size).toBeGreaterThan(1_000);
  });

  test("a bundle that does not use the SDK does not include it", async () => {
    const { outputFiles } = await build({
      stdin: { contents: 'import { VERSION } from "./dist/esm/index.js";', resolveDir: use.clone },
      bundle: true,
      minify: true,
      format: "esm",
      write: false,
    });
    expect(outputFiles[0]?.text).toBe("");
  });

  test("the tarball passes publint", async () => {
    const data = await readFile(use.tarball);
    const { messages, pkg } = await publint({ pack: { tarball: new Uint8Array(data).buffer }, strict: true });
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
  });

  test("the tarball passes attw: its types resolve as its modules do", async () => {
    const result = await checkPackage(createPackageFromTarballData(await readFile(use.tarball)));
    expect(result).toMatchObject({ types: { kind: "included" }, problems: [] });
  });
});
