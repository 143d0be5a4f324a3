import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Attacks real processes with tools from Debian packages: `.ci/abuse` installs them and runs this.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/abuse/**/*.abuse.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    // Each file loads the machine and measures times.
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 60_000,
  },
});
