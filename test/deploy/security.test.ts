import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { settingsSchema } from "../../server/config.js";

const text = readFileSync(join(packageRoot(), "SECURITY.md"), "utf8");

test("every test and every setting that SECURITY.md names exists", () => {
  const tests = [...text.matchAll(/`(test\/[\w./-]+\.ts)`/g)].map(([, path]) => String(path));
  expect(tests.length).toBeGreaterThan(30);
  for (const path of tests) expect(existsSync(join(packageRoot(), path)), path).toBe(true);
  const names = [...text.matchAll(/`([A-Z]+_[A-Z_]+)`/g)].map(([, name]) => String(name));
  expect(names.length).toBeGreaterThan(8);
  for (const name of names) expect(Object.keys(settingsSchema.shape)).toContain(name);
});
