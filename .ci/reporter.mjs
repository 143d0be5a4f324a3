import { writeFileSync } from "node:fs";
import { relative } from "node:path";

/** Vitest reporter that writes failures to the file REPORT, for `vitest-retry.mjs`. */
export default class Reporter {
  onTestRunEnd(files, unhandledErrors) {
    const failed = files.filter((file) => file.state() === "failed");
    const report = {
      // An error outside of tests or a crashed worker: the failing file is unknown.
      hasUnknownCause: unhandledErrors.length > 0 || files.some((file) => !isFinished(file)),
      files: failed.map(pathOf),
      names: failed.flatMap((file) => {
        const tests = [...file.children.allTests("failed")].map(
          (test) => `${pathOf(file)} > ${test.fullName}`,
        );
        return tests.length > 0 ? tests : [`${pathOf(file)} (outside of tests)`];
      }),
    };
    writeFileSync(process.env.REPORT, JSON.stringify(report));
  }
}

const pathOf = (file) => relative(process.cwd(), file.moduleId);

const isFinished = (file) =>
  /^(passed|failed|skipped)$/.test(file.state()) && file.children.allTests("pending").next().done === true;
