import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";

test("the benchmark's servers answer alike, and write equivalent rows, before anything is measured", async () => {
  const args = [join(packageRoot(), "test/bench/run.mjs"), "--only", "nothing", "--forms", "10000"];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  expect(stdout.trimEnd().split("\n")).toHaveLength(2);
});
