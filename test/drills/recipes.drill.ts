import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { makeScratchCopy } from "./scratch-copy.js";

// Most recipes of CONTRIBUTING.md are also patches: the files that one writes by hand. All are applied to one copy of the repository,
// first what is not in test/, so that the tests that should notice the change fail, then the rest.

interface Recipe {
  /** Begins its heading or list item in CONTRIBUTING.md. */
  heading: string;
  /** The most files to write by hand. */
  maxFiles: number;
  /** Tests that fail until they are changed too. */
  noticedBy: string[];
}

const RECIPES: Record<string, Recipe> = {
  field: { heading: "### Add a nullable public field", maxFiles: 7, noticedBy: ["server/projections"] },
  operation: {
    heading: "### Add an operation",
    maxFiles: 8,
    noticedBy: ["server/permissions", "server/query-plans", "contract/request-catalog"],
  },
  status: { heading: "### Add a status", maxFiles: 4, noticedBy: ["server/form-changes", "server/projections"] },
  filter: { heading: "### Add a filter of the list of forms", maxFiles: 6, noticedBy: ["server/query-plans"] },
  event: { heading: "### Add an event", maxFiles: 6, noticedBy: ["server/webhook-events"] },
  column: { heading: "- **A column**", maxFiles: 2, noticedBy: ["commands/webhooks"] },
  setting: { heading: "- **A setting**", maxFiles: 4, noticedBy: ["server/config"] },
};

/** The result of a test file. `assertionResults` is empty if the file cannot be loaded. */
interface FileResult {
  name: string;
  status: string;
  assertionResults: { fullName: string; failureMessages: string[] }[];
}

const patchOf = (name: string) => join(packageRoot(), "test/drills", `${name}.patch`);
const filesOf = (name: string) =>
  [...readFileSync(patchOf(name), "utf8").matchAll(/^diff --git a\/(\S+) /gm)].map(([, file = ""]) => file);

const contributing = readFileSync(join(packageRoot(), "CONTRIBUTING.md"), "utf8");

/** The text of a recipe, up to the next heading or item. */
function textOf({ heading }: Recipe): string {
  const [, rest = expect.fail(`CONTRIBUTING.md has no “${heading}”`)] = contributing.split(`\n${heading}`);
  return rest.split(/\n##|\n- \*\*/)[0] ?? "";
}

describe.each(Object.entries(RECIPES))("the recipe of a change: %s", (name, recipe) => {
  test(`writes at most ${recipe.maxFiles} files by hand`, () => {
    expect(filesOf(name).length).toBeLessThanOrEqual(recipe.maxFiles);
  });

  test("names each of these files", () => {
    // `<noun>` and the like stand for any name.
    const names = [...textOf(recipe).matchAll(/`([\w./<>-]+\.\w+)`/g)].map(([, name = ""]) => name);
    const patterns = names.map((name) => new RegExp(`^${name.replaceAll(/<\w+>/g, "[\\w-]+")}$`));
    const isNew = (file: string) => !existsSync(join(packageRoot(), file));
    expect(filesOf(name).filter((file) => !isNew(file) && !patterns.some((pattern) => pattern.test(file)))).toEqual([]);
  });
});

describe("with all recipes applied", () => {
  const tests = [...new Set(Object.values(RECIPES).flatMap(({ noticedBy }) => noticedBy))];
  let execute: Awaited<ReturnType<typeof makeScratchCopy>>["execute"];
  let folder: string;

  const apply = async (...only: string[]) => {
    for (const name of Object.keys(RECIPES)) await execute("git", "apply", "--3way", ...only, patchOf(name));
  };

  /** Runs these files of `test/`, and returns what fails in each that has a failure. */
  async function findFailures(files: string[]): Promise<Record<string, string[]>> {
    const report = join(folder, "report.json");
    const paths = files.map((file) => `test/${file}.test.ts`);
    const args = ["run", "--project", "test", "--reporter=json", `--outputFile=${report}`, ...paths];
    await execute("node_modules/.bin/vitest", ...args).catch(() => {});
    const { testResults }: { testResults: FileResult[] } = JSON.parse(readFileSync(report, "utf8"));
    expect(testResults.filter(({ assertionResults }) => assertionResults.length > 0)).toHaveLength(files.length);
    const failed = testResults.filter(({ status }) => status === "failed");
    const pairs = failed.map(({ name, assertionResults }) => {
      const messages = assertionResults.flatMap(({ fullName, failureMessages }) =>
        failureMessages.map((message) => `${fullName}: ${message}`),
      );
      return [files.find((file) => name.endsWith(`test/${file}.test.ts`)) ?? name, messages];
    });
    return Object.fromEntries(pairs);
  }

  beforeAll(async () => {
    ({ execute, folder } = await makeScratchCopy());
    await apply("--exclude=test/*");
    await execute("npm", "run", "migration", "--", "recipes");
    await execute("npm", "run", "generate");
    await execute("npm", "run", "build");
  });

  test("the tests that should notice fail until they are changed", async () => {
    expect(Object.keys(await findFailures(tests)).toSorted()).toEqual(tests.toSorted());
  });

  test("it compiles, and passes these tests and those of the public document once they are changed", async () => {
    await apply("--include=test/*");
    await execute("node_modules/.bin/tsc", "-p", "tsconfig.json");
    await execute("node_modules/.bin/vitest", "run", "--project", "test", "server/query-plans", "--update");
    const ofDocument = ["contract/breaking-changes", "contract/document", "sdk/documentation"];
    const all = [...tests, ...ofDocument];
    expect(await findFailures(all)).toEqual({});
  });
});
