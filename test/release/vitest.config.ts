import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Installs the release from the registry: `.ci/release` runs this, `npm test` does not.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/release/**/*.release.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    testTimeout: 120_000,
    hookTimeout: 300_000,
  },
});
