import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Needs servers from Debian packages, so it is not part of `npm test`: `.ci/fleet` installs them and runs this.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/fleet/**/*.fleet.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    // Each file loads the machine and measures times.
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
