// Runs vitest, and the files that failed once more by themselves: `node .ci/vitest.mjs COMMAND… [--files FILTER…]`,
// where COMMAND passes its last arguments on to vitest. A machine that stands still for seconds can fail a test that waits
// for a process. What needed a second try is named at the end, so that it is mended and not lost. Not for tests that look
// for what happens seldom.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** More than this many failed files are no accident. */
const FILES_AT_MOST = 3;

const words = process.argv.slice(2);
const end = words.indexOf("--files");
const command = end < 0 ? words : words.slice(0, end);
const filters = end < 0 ? [] : words.slice(end + 1);
const folder = mkdtempSync(join(tmpdir(), "guest-forms-ci-"));
try {
  const first = run("first", filters);
  process.exitCode = first.passed ? 0 : 1;
  if (!first.passed && !first.isUnexplained && first.files.length <= FILES_AT_MOST) {
    console.log(`\nSECOND TRY of ${first.files.join(", ")}`);
    const second = run("second", first.files);
    process.exitCode = second.passed ? 0 : 1;
    for (const name of first.names) console.log(`FAILED AT THE FIRST TRY: ${name}`);
    console.log(second.passed ? "PASSED ONLY AT THE SECOND TRY" : "FAILED AT THE SECOND TRY TOO");
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function run(name, files) {
  const report = join(folder, `${name}.json`);
  const reporters = [
    "--reporter=default",
    `--reporter=${fileURLToPath(new URL("reporter.mjs", import.meta.url))}`,
  ];
  const [program, ...args] = [...command, ...reporters, ...files];
  const { status } = spawnSync(program, args, { stdio: "inherit", env: { ...process.env, REPORT: report } });
  return { passed: status === 0, ...read(report) };
}

/** Without a report, or with one of no failed file, nothing is explained. */
function read(report) {
  try {
    const { isUnexplained, files, names } = JSON.parse(readFileSync(report, "utf8"));
    return { isUnexplained: isUnexplained || files.length === 0, files, names };
  } catch {
    return { isUnexplained: true, files: [], names: [] };
  }
}
