import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    // Most of a test's time is waiting for Postgres or for a process.
    maxWorkers: availableParallelism() + 1,
    // For a machine that has much else to do; what is promised to be fast is asserted by the tests themselves.
    testTimeout: 60_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 30_000 } },
  },
});
