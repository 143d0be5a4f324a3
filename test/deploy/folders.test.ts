import { readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";

const IMPORT = /(?:from|import\()\s*"(\.[^"]+)"/g;

/** The folders of `root` that each of its folders imports, directly or through others; "." are the files beside the folders. */
async function importedFolders(root: string): Promise<Map<string, Set<string>>> {
  const imported = new Map<string, Set<string>>();
  for (const path of await readdir(join(packageRoot(), root), { recursive: true })) {
    const [folder = "", ...rest] = path.split("/");
    if (rest.length === 0 || !path.endsWith(".ts")) continue;
    const others = imported.get(folder) ?? new Set();
    imported.set(folder, others);
    for (const [, specifier = ""] of readFileSync(join(packageRoot(), root, path), "utf8").matchAll(IMPORT)) {
      const [other = "", ...file] = normalize(join(dirname(path), specifier)).split("/");
      if (other !== ".." && other !== folder) others.add(file.length > 0 ? other : ".");
    }
  }
  // A set grows while it is iterated.
  for (const others of imported.values()) {
    for (const other of others) for (const next of imported.get(other) ?? []) others.add(next);
  }
  return imported;
}

test.each(["server", "gateway"])("no folder of %s/ imports, through others, from itself", async (root) => {
  const imported = await importedFolders(root);
  expect(imported.size).toBeGreaterThan(8);
  expect([...imported].filter(([folder, others]) => others.has(folder)).map(([folder]) => folder)).toEqual([]);
});

test("no folder of gateway/ imports the command line", async () => {
  const imported = await importedFolders("gateway");
  expect([...imported].filter(([, others]) => others.has(".")).map(([folder]) => folder)).toEqual([]);
});
