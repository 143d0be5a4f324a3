import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { PACKAGE } from "../../gateway/runtime/package.js";
import { packageRoot } from "../../prisma/package-root.js";
import { makeTempFolder } from "../support/run-tool.js";

const script = pathToFileURL(join(packageRoot(), "gateway/build/archive-version.mjs")).href;
const { archiveVersion }: { archiveVersion(version: string, folder: string): string } = await import(script);

/** The version of an archive with this changelog and program. */
async function versionWith(changelog: string, program = "", version = "1.1.0") {
  const folder = await makeTempFolder("archive");
  await writeFile(join(folder, "CHANGELOG.md"), changelog);
  await mkdir(join(folder, "dist"));
  await writeFile(join(folder, "dist/main.js"), program);
  return archiveVersion(version, folder);
}

const RELEASED = "# Changelog\n\n## 1.1.0 - 2026-11-29\n\n- A\n";
const UNRELEASED = RELEASED.replace("## 1.1.0", "## Unreleased\n\n- B\n\n## 1.1.0");

test("the archive of a release has the version of package.json", async () => {
  expect(await versionWith(RELEASED)).toBe("1.1.0");
});

test("archives with unreleased changes have versions after the last release, which differ if any file differs", async () => {
  const version = await versionWith(UNRELEASED, "1");
  expect(version).toMatch(/^1\.1\.1-next-[0-9a-f]{8}$/);
  expect(await versionWith(UNRELEASED, "1")).toBe(version);
  expect(await versionWith(UNRELEASED, "2")).not.toBe(version);
  expect(await versionWith(`${UNRELEASED}- C\n`, "1")).not.toBe(version);
  expect(await versionWith(UNRELEASED, "1", "1.1.9")).toMatch(/^1\.1\.10-next-/);
});

test.each([RELEASED.replaceAll("1.1.0", "1.2.0"), RELEASED.replace(" - 2026-11-29", ""), ""])(
  "an archive whose changelog begins with another version is refused",
  async (changelog) => {
    await expect(versionWith(changelog)).rejects.toThrow(
      /^CHANGELOG\.md begins with ".*": change it to "Unreleased" or "1\.1\.0 - DATE"\.$/,
    );
  },
);

test("the changelog begins with unreleased changes or with the version of package.json", async () => {
  const changelog = readFileSync(join(packageRoot(), "CHANGELOG.md"), "utf8");
  await expect(versionWith(changelog, "", PACKAGE.version)).resolves.toBeTruthy();
});
