import { describe, expect, onTestFinished, test, vi } from "vitest";
import { findNotRun, type PageCommand, runFromPage, runScript } from "../support/operating-page.js";
import { runCli } from "../support/processes.js";
import { type Run, readRuns } from "../support/ran-commands.js";
import { makeTempFolder } from "../support/run-tool.js";

describe("a command of operating.md counts as run by a test", () => {
  const block = "psql -c 'SELECT 1'\nguest-forms migrate\n";
  const inBlock = (text: string): PageCommand => ({ text, source: block, isInline: false });
  const inline = (text: string): PageCommand => ({ text, source: text, isInline: true });
  const migrate = inBlock("guest-forms migrate");

  const renamed = inline("guest-forms emails retry ID");
  const option = inline("guest-forms migrate --accept-new-secret");

  test.each<[string, PageCommand, Run[], boolean]>([
    ["not if it ran in other words, without the block", migrate, [{ command: migrate.text }], false],
    ["not if another block ran", migrate, [{ source: "guest-forms migrate\n" }], false],
    ["if it ran with values", renamed, [{ command: "guest-forms emails retry 7 --json" }], true],
    ["not if it ran without its option", option, [{ command: "guest-forms migrate" }], false],
    ["not if the value is missing", renamed, [{ command: "guest-forms emails retry" }], false],
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
