// A reporter for Vitest: fails the run if a test is skipped, and records what ran for `.ci/table.mjs`.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";

/** The errors of a test, or of the hooks of a `describe` or file. */
function failuresOf(task) {
  const errors = task.type === "test" ? task.result().errors : task.errors();
  const name = [task.module?.relativeModuleId ?? task.relativeModuleId, task.fullName].filter(Boolean).join(": ");
  return errors.map(({ message }) => `${name}: ${message}`);
}

export default class Reporter {
  #vitest;

  onInit(vitest) {
    this.#vitest = vitest;
  }

  // Runs before the suite's own database server is stopped.
  async onTestRunEnd(modules, unhandledErrors) {
    const postgres = await this.#postgresVersion();
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const suites = modules.flatMap((module) => [...module.children.allSuites()]);
    const inState = (state) => tests.filter((test) => test.result().state === state);
    const skipped = inState("skipped");
    for (const test of skipped) {
      console.error(`SKIPPED: ${test.module.relativeModuleId}: ${test.fullName}`);
      process.exitCode = 1;
    }
    const { CI_RESULTS, CI_STAGE } = process.env;
    if (CI_RESULTS === undefined) return;
    const record = {
      stage: CI_STAGE,
      passed: inState("passed").length,
      failed: inState("failed").length,
      skipped: skipped.length,
      failures: [
        ...[...modules, ...suites, ...inState("failed")].flatMap(failuresOf),
        ...unhandledErrors.map(({ message }) => `unhandled error: ${message}`),
      ],
      node: process.versions.node,
      postgres,
    };
    writeFileSync(join(CI_RESULTS, `${process.pid}.json`), JSON.stringify(record));
  }

  /** The version of the server that the tests used. */
  async #postgresVersion() {
    const { serverUrl } = this.#vitest.projects[0].getProvidedContext();
    const client = new pg.Client({ connectionString: serverUrl });
    await client.connect();
    try {
      const { rows } = await client.query("SHOW server_version");
      return rows[0].server_version.split(" ")[0];
    } finally {
      await client.end();
    }
  }
}
