import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What a test has run with exit code 0. */
export type Run =
  /** A block of code, or inline code, of gateway/docs/operating.md, completely. */
  | { source: string }
  /** A command of a test's own. */
  | { command: string };

/** The record of this run of `.ci/stages`, to which all its stages add; undefined outside of it. */
const recordFile = () => process.env.CI_RESULTS && join(process.env.CI_RESULTS, "ran-commands");

/** Call it only after the exit code was 0. Does nothing outside of `.ci/stages`. */
export function recordRun(run: Run): void {
  const file = recordFile();
  if (file) appendFileSync(file, `${JSON.stringify(run)}\n`);
}

/** Returns what the stages of this run of `.ci/stages` have recorded so far. */
export function readRuns(): Run[] {
  const file = recordFile();
  if (!file) throw new Error("Only .ci/stages records the commands that its stages run.");
  return readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}
