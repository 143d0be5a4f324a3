import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";

/** Runs these stages of CI. Returns the exit code, and the end of the output. */
function runStages(...stages: string[]) {
  const { status, stdout } = spawnSync(join(packageRoot(), ".ci/stages"), {
    input: stages.join("\n"),
    encoding: "utf8",
  });
  return { status, table: stdout.slice(stdout.indexOf("\nstage ")) };
}

const INSTALL = "install | | | true";
const BUILD = "build | | | true";

test("a run of CI passes if every stage does, and prints a table of them", () => {
  const { status, table } = runStages(INSTALL, BUILD, "one | | | true", "& beside it | | | echo");
  expect(table).toMatch(/^one +passed +- +\d+$/m);
  expect(table).toMatch(/^& beside it +passed +- +\d+$/m);
  expect(status).toBe(0);
});

test.each([
  ["a stage fails", [INSTALL, BUILD, "one | | | false", "two | | | true"], "one: failed"],
  ["a stage beside another fails", [INSTALL, BUILD, "one | | | true", "& two | | | false"], "& two: failed"],
  ["a stage cannot start", [INSTALL, BUILD, "one | | | no-such-command"], "one: failed"],
  ["a stage is not run, because the build fails", [INSTALL, "build | | | false", "one | | | true"], "one: not run"],
  [
    "a stage runs no tests on the versions that it names",
    [INSTALL, BUILD, "one | 20 | 18 | true"],
    "one: its tests ran on Node , PostgreSQL  instead of Node 20, PostgreSQL 18",
  ],
])("a run of CI fails if %s", (_, stages, problem) => {
  const { status, table } = runStages(...stages);
  expect(table).toContain(`\n${problem}\n`);
  expect(table).toMatch(/\nCI FAILED\n$/);
  expect(status).toBe(1);
});

/** The suites that these scripts of `.ci` run, with the filters of their files. */
const readSuites = (...scripts: string[]) =>
  scripts
    .map((name) => readFileSync(join(packageRoot(), ".ci", name), "utf8").replaceAll("\\\n", " "))
    .flatMap((script) => [...script.matchAll(/\.ci\/suite (\S+)(.*)/g)])
    .map(([, suite, filters = ""]) => ({ suite, filters: filters.trim().split(/ +/) }));

/** The files of all suites, in `test/`. */
const SUITE_FILES = readdirSync(join(packageRoot(), "test"), { recursive: true, encoding: "utf8" })
  .filter((file) => /\.[a-z-]+\.ts$/.test(file) && !file.endsWith(".test-d.ts"))
  .map((file) => ({ path: `test/${file}`, suite: file.split(".").at(-2) }));

test("every file of every suite is run by `.ci/run` or `.ci/nightly`", () => {
  const suites = readSuites("run", "nightly");
  const files = SUITE_FILES.filter(({ suite }) => suite !== "test");
  expect(files.length).toBeGreaterThan(50);
  const isRun = ({ path, suite }: (typeof files)[number]) =>
    suites.some((run) => run.suite === suite && run.filters.some((filter) => path.includes(filter)));
  expect(files.filter((file) => !isRun(file))).toEqual([]);
});

// Vitest ignores a filter that matches no file, if another one does.
test("every filter of a suite in `.ci` matches a file", () => {
  const filters = readSuites("run", "nightly", "node-versions").flatMap(({ suite, filters }) =>
    filters.map((filter) => ({ suite, filter })),
  );
  expect(filters.length).toBeGreaterThan(30);
  const matches = ({ suite, filter }: (typeof filters)[number]) =>
    SUITE_FILES.some((file) => file.suite === suite && file.path.includes(filter));
  expect(filters.filter((one) => !matches(one))).toEqual([]);
});
