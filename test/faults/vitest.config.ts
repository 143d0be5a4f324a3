import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Processes killed, raced and cut off, and a very large listing: `npm run faults` runs all rounds, `.ci/faults` a part.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/faults/**/*.fault.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    // Each file keeps the machine busy, and kills at measured moments.
    fileParallelism: false,
    testTimeout: 900_000,
    hookTimeout: 120_000,
  },
});
