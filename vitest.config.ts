import { availableParallelism } from "node:os";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";

const SECOND_MS = 1_000;

// A suite is the files whose names end with `.NAME.ts`. `npm test` runs `test`; the scripts in `.ci` run the others.
function suite(name: string, options: TestProjectInlineConfiguration["test"]): TestProjectInlineConfiguration {
  return {
    extends: true,
    test: {
      name,
      include: [`test/**/*.${name}.ts`],
      globalSetup: ["test/support/global-setup.ts"],
      setupFiles: ["test/support/run-after-file.ts"],
      ...options,
    },
  };
}

/** Vitest's own default is one less. For suites that judge no times. */
const AS_MANY_AS_CORES = availableParallelism();

/** For suites that load the machine, measure times or kill processes. */
const ONE_FILE_AT_A_TIME = { fileParallelism: false };

export default defineConfig({
  test: {
    pool: "forks",
    expect: { poll: { timeout: 30 * SECOND_MS } },
    projects: [
      suite("test", {
        // The files of a process share modules: importing them for each file would take a third of the time. A file
        // that needs its own calls `vi.resetModules` before and after.
        isolate: false,
        // Tests mostly wait for Postgres or for processes.
        maxWorkers: availableParallelism() + 4,
        // Generous, for a loaded machine. Tests assert promised times themselves.
        testTimeout: 120 * SECOND_MS,
        hookTimeout: 180 * SECOND_MS,
      }),
      // Chromium.
      suite("browser", { maxWorkers: AS_MANY_AS_CORES, testTimeout: 180 * SECOND_MS, hookTimeout: 180 * SECOND_MS }),
      // Packages that are packed and installed.
      suite("release", { maxWorkers: AS_MANY_AS_CORES, testTimeout: 120 * SECOND_MS, hookTimeout: 300 * SECOND_MS }),
      // The recipes of CONTRIBUTING.md, applied to a copy of the repository.
      suite("drill", { testTimeout: 300 * SECOND_MS, hookTimeout: 300 * SECOND_MS }),
      // Third-party tools for OpenAPI documents.
      suite("openapi", { testTimeout: 60 * SECOND_MS, hookTimeout: 60 * SECOND_MS }),
      // What all stages of `.ci/nightly` together must have run.
      suite("last-stage", { testTimeout: 60 * SECOND_MS, hookTimeout: 60 * SECOND_MS }),
      // A primary of Postgres and what stands in for it: restarts, failover, backups.
      suite("cluster", { ...ONE_FILE_AT_A_TIME, testTimeout: 900 * SECOND_MS, hookTimeout: 300 * SECOND_MS }),
      // Many processes with HAProxy, Redis and PgBouncer. Results must not depend on the time zone of the machine or the
      // database.
      suite("fleet", {
        ...ONE_FILE_AT_A_TIME,
        env: { TZ: "Asia/Kolkata" },
        testTimeout: 900 * SECOND_MS,
        hookTimeout: 300 * SECOND_MS,
      }),
      // Load, floods, faults, and what an operator sees of them.
      suite("load", { ...ONE_FILE_AT_A_TIME, testTimeout: 900 * SECOND_MS, hookTimeout: 300 * SECOND_MS }),
      // What takes milliseconds, or is judged per second, on a machine that does nothing else.
      suite("timing", { ...ONE_FILE_AT_A_TIME, testTimeout: 300 * SECOND_MS, hookTimeout: 180 * SECOND_MS }),
      // Attacks with tools from Debian packages.
      suite("abuse", { ...ONE_FILE_AT_A_TIME, testTimeout: 600 * SECOND_MS, hookTimeout: 180 * SECOND_MS }),
    ],
  },
});
