import { expect, test } from "vitest";
import { findNotRun, NEVER_RUN, readCommands } from "../support/operating-page.js";
import { readRuns } from "../support/ran-commands.js";

// The last stage of `.ci/nightly`. The stages before it record what they run.

test("every command of operating.md was run by a test with exit code 0, except those that need systemd or a container engine", () => {
  const commands = readCommands();
  expect(commands.length).toBeGreaterThan(40);
  const notRun = findNotRun(commands, readRuns()).map(({ text }) => text);
  const missing = notRun.filter((text) => !NEVER_RUN.some(({ start }) => text.startsWith(start)));
  expect(missing, "run them in a test with runFromPage of test/support/operating-page.ts").toEqual([]);
});
