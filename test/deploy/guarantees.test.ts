import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";

const read = (path: string) => readFileSync(join(packageRoot(), path), "utf8");
const page = read("test/README.md");

/** The cells of all table rows. A title never contains a pipe or a double quote. */
const rows = [...page.matchAll(/^\| (?!-)(.+) \|$/gm)].map(([, row = ""]) => row.split(" | "));

/** Every title in the table with its file: the last one named before it. */
const titles = rows.flatMap(([, ...tests]) => {
  let file = "";
  return [...tests.join(" ").matchAll(/`([\w./-]+\.[a-z]+)`|"([^"]+)"/g)].flatMap(([, path, title]) => {
    if (path) file = path;
    return { file, title };
  });
});

test("every test that test/README.md names is in its file", () => {
  expect(rows.length).toBeGreaterThan(120);
  expect(titles.length).toBeGreaterThan(300);
  const isFound = ({ file, title = "" }: (typeof titles)[number]) =>
    existsSync(join(packageRoot(), "test", file)) && read(`test/${file}`).includes(title);
  expect(titles.filter((named) => !isFound(named))).toEqual([]);
});

test("test/README.md has every section of contract.md, in order, with tests", () => {
  const [, contract = ""] = /^## The contract$(.+?)^## /ms.exec(page) ?? [];
  const sections = contract.split(/^### /m).slice(1);
  const headings = [...read("gateway/docs/contract.md").matchAll(/^## (.+)$/gm)].map(([, name]) => name);
  expect(sections.map((section) => section.split("\n")[0])).toEqual(headings);
  for (const section of sections) expect(section).toMatch(/^\| .+ \| `/m);
});
