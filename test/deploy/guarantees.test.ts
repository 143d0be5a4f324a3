import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { isTest, namedTests } from "../support/named-tests.js";

const read = (path: string) => readFileSync(join(packageRoot(), path), "utf8");
const page = read("test/README.md");

test("every test that test/README.md names is in its file", () => {
  // The cells of all table rows but the first. A title never contains a pipe or a double quote.
  const rows = [...page.matchAll(/^\| (?!-)(.+) \|$/gm)].map(([, row = ""]) => row.split(" | ").slice(1).join(" "));
  const named = rows.flatMap(namedTests);
  expect(rows.length).toBeGreaterThan(120);
  expect(named.length).toBeGreaterThan(300);
  expect(named.filter((each) => !isTest(each))).toEqual([]);
});

test("test/README.md has every section of contract.md, in order, with tests", () => {
  const [, contract = ""] = /^## The contract$(.+?)^## /ms.exec(page) ?? [];
  const sections = contract.split(/^### /m).slice(1);
  const headings = [...read("gateway/docs/contract.md").matchAll(/^## (.+)$/gm)].map(([, name]) => name);
  expect(sections.map((section) => section.split("\n")[0])).toEqual(headings);
  for (const section of sections) expect(section).toMatch(/^\| .+ \| `/m);
});
