import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { settingsSchema } from "../../server/config.js";

const read = (path: string) => readFileSync(join(packageRoot(), path), "utf8");
const security = read("SECURITY.md");

/** The tests that a document names as `FILE`: "TITLE", "TITLE"; the file of a title is the last one named before it. */
function namedTests(text: string): { file: string; title: string }[] {
  let file = "";
  return [...text.matchAll(/`(?:test\/)?([\w./-]+\.[a-z]+)`|"([^"|\n]+)"/g)].flatMap(([, path, title]) => {
    if (path) file = path;
    return title ? { file, title } : [];
  });
}

/** Whether the file lacks this title, or a part of it. */
function isMissing({ file, title }: { file: string; title: string }): boolean {
  const path = join(packageRoot(), "test", file);
  return !existsSync(path) || !readFileSync(path, "utf8").includes(title);
}

/** The cells of all tables. A title never contains a pipe or a double quote. */
const rowsOf = (text: string) => [...text.matchAll(/^\| (?!-)(.+) \|$/gm)].map(([, row = ""]) => row.split(" | "));

test("every threat and promise of SECURITY.md names tests that exist, by file and title", () => {
  const tables = [...security.matchAll(/^\| .+ \| test \|\n\| [-| ]+ \|\n((?:\|.*\n)+)/gm)].map(
    ([, rows = ""]) => rows,
  );
  const named = tables.flatMap((rows) => rowsOf(rows).map((cells) => namedTests(cells.at(-1) ?? "")));
  expect(named.length).toBeGreaterThan(25);
  for (const tests of named) expect(tests).not.toEqual([]);
  const outsideTables = security.replaceAll(/^\|.*$/gm, "").match(/`test\/[\w./-]+\.ts`: "[^"]+"/g) ?? [];
  expect([...named.flat(), ...outsideTables.flatMap(namedTests)].filter(isMissing)).toEqual([]);
});

test("every setting that SECURITY.md names exists", () => {
  const names = [...security.matchAll(/`([A-Z]+_[A-Z_]+)`/g)].map(([, name]) => String(name));
  expect(names.length).toBeGreaterThan(8);
  for (const name of names) expect(Object.keys(settingsSchema.shape)).toContain(name);
});
