import { writeFileSync } from "node:fs";
import { relative } from "node:path";

/** Writes down, where REPORT says, what of a run of vitest failed: for `vitest.mjs`. */
export default class Reporter {
  onTestRunEnd(files, unhandledErrors) {
    const failed = files.filter((file) => file.state() === "failed");
    const report = {
      // An error that no test answers for, or a worker that died: nothing tells which file is to blame.
      isUnexplained: unhandledErrors.length > 0 || files.some((file) => !hasEnded(file)),
      files: failed.map(pathOf),
      names: failed.flatMap((file) => {
        const tests = [...file.children.allTests("failed")].map(
          (test) => `${pathOf(file)} > ${test.fullName}`,
        );
        return tests.length > 0 ? tests : [`${pathOf(file)} (outside of its tests)`];
      }),
    };
    writeFileSync(process.env.REPORT, JSON.stringify(report));
  }
}

const pathOf = (file) => relative(process.cwd(), file.moduleId);

const hasEnded = (file) =>
  /^(passed|failed|skipped)$/.test(file.state()) && file.children.allTests("pending").next().done === true;
