import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Many processes, with servers from Debian's packages: `.ci/fleet` installs those and runs this, `npm test` does not.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/fleet/**/*.fleet.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    // Each file keeps the machine busy, and measures.
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
