import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";

/** Not that of a benchmark that may be running. Its bundle can only find packages within the project. */
const FOLDER = ".data/equivalence";
const HEAD_AND_RULE = 2;

test("the benchmark's servers answer alike, and write equivalent rows, before anything is measured", async () => {
  onTestFinished(() => rm(join(packageRoot(), FOLDER), { recursive: true }));
  const args = [join(packageRoot(), "test/bench/run.mjs"), "--only", "nothing", "--forms", "10000"];
  const env = { ...process.env, BENCH_FOLDER: FOLDER };
  const { stdout } = await promisify(execFile)(process.execPath, args, { env, timeout: 100_000 });
  expect(stdout.trimEnd().split("\n")).toHaveLength(HEAD_AND_RULE);
});
