import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Fault injection, and a very large listing: `npm run faults` runs all rounds, `.ci/faults` a tenth.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/faults/**/*.fault.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    // Each file loads the machine and kills processes at measured times.
    fileParallelism: false,
    testTimeout: 900_000,
    hookTimeout: 120_000,
  },
});
