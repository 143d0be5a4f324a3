import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { settingsSchema } from "../../server/config.js";
import { isTest, namedTests } from "../support/named-tests.js";

const text = readFileSync(join(packageRoot(), "SECURITY.md"), "utf8");

test("every threat and promise of SECURITY.md names tests that exist, by file and title", () => {
  const tables = [...text.matchAll(/^\| .+ \| test \|\n\| [-| ]+ \|\n((?:\|.*\n)+)/gm)].map(([, rows = ""]) => rows);
  const cells = tables.flatMap((rows) => rows.trim().split("\n")).map((row) => row.split(" | ").at(-1) ?? "");
  expect(cells.length).toBeGreaterThan(25);
  for (const cell of cells) {
    const tests = namedTests(cell);
    expect([cell, tests.length > 0, tests.filter((named) => !isTest(named))]).toEqual([cell, true, []]);
  }
});

test("every test that SECURITY.md names outside its tables exists", () => {
  const prose = text.replaceAll(/^\|.*$/gm, "");
  const named = [...prose.matchAll(/`test\/[\w./-]+\.ts`: "[^"]+"/g)].flatMap(([reference]) => namedTests(reference));
  expect(named.filter((each) => !isTest(each))).toEqual([]);
});

test("every setting that SECURITY.md names exists", () => {
  const names = [...text.matchAll(/`([A-Z]+_[A-Z_]+)`/g)].map(([, name]) => String(name));
  expect(names.length).toBeGreaterThan(8);
  for (const name of names) expect(Object.keys(settingsSchema.shape)).toContain(name);
});
