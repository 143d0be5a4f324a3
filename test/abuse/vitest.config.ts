import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Attacks on real processes, with tools from Debian's packages: `.ci/abuse` installs those and runs this.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/abuse/**/*.abuse.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    // Each file keeps the machine busy, and measures.
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 60_000,
  },
});
