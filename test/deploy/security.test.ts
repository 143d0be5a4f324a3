import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { settingsSchema } from "../../server/config.js";
import { isTest, type NamedTest, parseNamedTests } from "../support/named-tests.js";

const text = readFileSync(join(packageRoot(), "SECURITY.md"), "utf8");

/** The rows of the tables whose last column is `test`, in a part of the page. */
function testedRows(page: string): { claim: string; tests: NamedTest[] }[] {
  const tables = [...page.matchAll(/^\| .+ \| test \|\n\| [-| ]+ \|\n((?:\|.*\n)+)/gm)];
  return tables.flatMap(([table, rows = ""]) => {
    const columns = table.split("\n")[0]?.split(" | ").length;
    return rows
      .trim()
      .split("\n")
      .map((row) => {
        const cells = row.slice(2, -2).split(" | ");
        if (cells.length !== columns) throw new Error(`This row has not ${columns} cells: ${row}`);
        return { claim: String(cells[0]), tests: parseNamedTests(String(cells.at(-1))) };
      });
  });
}

const missing = (page: string) =>
  testedRows(page).flatMap(({ tests }) => tests.filter((named) => !isTest(named)));

test("every threat and promise of SECURITY.md names tests that exist, by file and title", () => {
  const claims = testedRows(text).map(({ claim }) => claim);
  expect(claims.length).toBeGreaterThan(25);
  expect(new Set(claims).size).toBe(claims.length);
  expect(missing(text)).toEqual([]);
});

test("every test that SECURITY.md names outside its tables exists", () => {
  const prose = text.replaceAll(/^\|.*$/gm, "");
  const named = [...prose.matchAll(/`test\/[\w./-]+\.ts`(?:: "[^"]+")?/g)].map(([reference]) => reference);
  expect(named.length).toBeGreaterThan(0);
  expect(named.flatMap(parseNamedTests).filter((each) => !isTest(each))).toEqual([]);
});

describe("the check of the tests that a document names", () => {
  const page = (cell: string) => `| threat | test |\n| --- | --- |\n| a threat | ${cell} |\n`;
  const FILE = "test/deploy/security.test.ts";
  const TITLE = "every threat and promise of SECURITY.md names tests that exist";

  test("accepts a part of a title in its file", () => {
    expect(missing(page(`\`${FILE}\`: "${TITLE}"`))).toEqual([]);
  });

  test.each([
    ["no test", "—"],
    ["an empty cell", ""],
    ["a file without a title", `\`${FILE}\``],
    ["a title without a file", `"${TITLE}"`],
    ["text beside a test", `\`${FILE}\`: "${TITLE}" (mostly)`],
    ["a third cell", `none | \`${FILE}\`: "${TITLE}"`],
  ])("rejects %s", (_, cell) => expect(() => missing(page(cell))).toThrow(/names no test|has not 2 cells/));

  test.each([
    ["a misspelt title", { file: FILE, title: TITLE.replace("names", "name") }],
    ["a missing file", { file: "test/deploy/safety.test.ts", title: TITLE }],
    // test("words of a comment")
    ["a title that is only in a comment", { file: FILE, title: "words of a comment" }],
    ["a title that is only in code", { file: FILE, title: "toBeGreaterThan" }],
  ])("finds %s", (_, { file, title }) => {
    expect(missing(page(`\`${file}\`: "${title}"`))).toEqual([{ file, title }]);
  });
});

test("every setting that SECURITY.md names exists", () => {
  const names = [...text.matchAll(/`([A-Z]+_[A-Z_]+)`/g)].map(([, name]) => String(name));
  expect(names.length).toBeGreaterThan(8);
  for (const name of names) expect(Object.keys(settingsSchema.shape)).toContain(name);
});
