import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { readSettings } from "../../server/config.js";
import { WORKER_EXTRA_CONNECTIONS } from "../../server/worker.js";
import { findNotRun, type PageCommand, runFromPage, runScript } from "../support/operating-page.js";
import { runCli } from "../support/processes.js";
import { type Run, readRuns } from "../support/ran-commands.js";
import { makeTempFolder } from "../support/run-tool.js";

describe("a command of operating.md counts as run by a test", () => {
  const block = "psql -c 'SELECT 1'\nguest-forms migrate\n";
  const inBlock = (text: string): PageCommand => ({ text, source: block, isInline: false });
  const inline = (text: string): PageCommand => ({ text, source: text, isInline: true });
  const migrate = inBlock("guest-forms migrate");

  const renamed = inline("guest-forms notifications retry ID");
  const option = inline("guest-forms migrate --accept-new-secret");

  test.each<[string, PageCommand, Run[], boolean]>([
    ["not if it ran in other words, without the block", migrate, [{ command: migrate.text }], false],
    ["not if another block ran", migrate, [{ source: "guest-forms migrate\n" }], false],
    ["if it ran with values", renamed, [{ command: "guest-forms notifications retry 7 --json" }], true],
    ["not if it ran without its option", option, [{ command: "guest-forms migrate" }], false],
    ["not if the value is missing", renamed, [{ command: "guest-forms notifications retry" }], false],
  ])("%s", (_, command, runs, isRun) => {
    const commands = [inBlock("psql -c 'SELECT 1'"), migrate, command];
    expect(findNotRun(commands, runs).includes(command)).toBe(!isRun);
  });

  test("not if it failed", async () => {
    vi.stubEnv("CI_RESULTS", await makeTempFolder("results"));
    onTestFinished(() => {
      vi.unstubAllEnvs();
    });
    await runFromPage("echo 1; true", runScript);
    await expect(runFromPage("false; echo 2", runScript)).rejects.toThrow();
    await runCli(["--help"]);
    await runCli(["no-such-command"]);
    expect(readRuns()).toEqual([{ source: "echo 1; true" }, { command: "guest-forms --help" }]);
  });
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
    processes.map((count) => count * (DATABASE_POOL_SIZE + 1 + WORKER_CONCURRENCY + WORKER_EXTRA_CONNECTIONS)),
  );
  expect(numbersOf("operating.md", "memory of these processes, GB")).toEqual(
    processes.map((count) => Math.round(count * 3.55) / 10),
  );
});
