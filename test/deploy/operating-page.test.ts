import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { readSettings } from "../../server/config.js";
import { operatingBlock, operatingInline, readCommands } from "../support/operating-page.js";

// Every command of gateway/docs/operating.md is run by a test. Tests that run blocks and inline code of the page, with
// test/support/operating-page.ts, are found by their calls. Name the test of any other command in RUN_ELSEWHERE.

const folder = join(packageRoot(), "test");
const read = (path: string) => readFileSync(join(folder, path), "utf8");
const CALL = /\b(?:operating|run|start|export)(Block|Inline)\(\s*"([^"]+)"/g;

/** Commands that a test runs in its own words: how they start, the test's file, and what that file has for it. */
const RUN_ELSEWHERE: [command: string, file: string, evidence: string][] = [
  ["npm ci && npm run release", "release/image.release.ts", "engines"],
  ["guest-forms members remove", "faults/large-listing.fault.ts", '"members", "remove"'],
  ["guest-forms migrate --accept-new-secret", "gateway/secret-checks.test.ts", '"--accept-new-secret"'],
  ["guest-forms secrets reencrypt", "commands/secrets.test.ts", '"secrets", "reencrypt"'],
  ["guest-forms secrets status", "commands/secrets.test.ts", '"secrets", "status"'],
  ["guest-forms notifications retry ID", "commands/erase-and-retry.test.ts", '"notifications", "retry"'],
  ["guest-forms serve --workers auto", "fleet/workers.fleet.ts", '"--workers"'],
];

/** Commands that no test can run, and the test of the files that they use. */
const NOT_RUN: [command: string, reason: string, file: string][] = [
  ["docker compose", "needs a container engine that can download images", "deploy/containers.test.ts"],
  ["systemctl", "needs systemd as the first process", "deploy/systemd.test.ts"],
];

/** The blocks and inline commands that tests run from the page. */
function sourcesRun(): Set<string> {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".ts"),
  );
  return new Set(
    files.flatMap((path) =>
      [...read(path).matchAll(CALL)].map(([, kind, text = ""]) =>
        kind === "Block" ? operatingBlock(text) : operatingInline(text),
      ),
    ),
  );
}

test("every command of operating.md is run by a test, except those that need systemd or a container engine", () => {
  const sources = sourcesRun();
  const commands = readCommands();
  expect(commands.length).toBeGreaterThan(40);
  const fromPage = commands.filter(({ source }) => sources.has(source)).map(({ text }) => text);
  const isRun = ({ text, source, isInline }: (typeof commands)[number]) =>
    sources.has(source) ||
    // Names a command that is run with its arguments.
    (isInline && fromPage.some((line) => `${line} `.startsWith(`${text} `))) ||
    [...RUN_ELSEWHERE, ...NOT_RUN].some(([start]) => text.startsWith(start));
  const missing = commands.filter((command) => !isRun(command)).map(({ text }) => text);
  expect(
    missing,
    "run them with test/support/operating-page.ts, or name their test in RUN_ELSEWHERE",
  ).toEqual([]);
});

test.each(RUN_ELSEWHERE)("%s is run in test/%s", (command, file, evidence) => {
  expect(readCommands().some(({ text }) => text.startsWith(command))).toBe(true);
  expect(read(file)).toContain(evidence);
});

test.each(NOT_RUN)("%s (%s) is on the page, and its files are tested in test/%s", (command, _, file) => {
  expect(readCommands().some(({ text }) => text.startsWith(command))).toBe(true);
  expect(read(file)).toMatch(/compose\.yaml|guest-forms\.service/);
});

/** The cells of a row of a table, without the thousands separators. */
function numbersOf(page: string, row: string): number[] {
  const text = readFileSync(join(packageRoot(), "gateway/docs", page), "utf8");
  const [line = ""] = text.split("\n").filter((each) => each.startsWith(`| ${row} |`));
  return line
    .split("|")
    .slice(2, -1)
    .map((cell) => Number(cell.replaceAll(",", "")));
}

test("the sizes are those of performance.md, and what follows from them", () => {
  const rows = [
    "mixed requests/s",
    "of these, creates/s",
    "creates/s, if there is nothing else",
    "gateway processes for them",
  ];
  for (const row of rows) expect(numbersOf("operating.md", row)).toEqual(numbersOf("performance.md", row));
  const { DATABASE_POOL_SIZE, WORKER_CONCURRENCY } = readSettings({});
  const processes = numbersOf("operating.md", "gateway processes for them");
  expect(numbersOf("operating.md", "connections of these processes")).toEqual(
    processes.map((count) => count * (DATABASE_POOL_SIZE + WORKER_CONCURRENCY + 2)),
  );
  expect(numbersOf("operating.md", "memory of these processes, GB")).toEqual(
    processes.map((count) => Math.round(count * 3.55) / 10),
  );
});
