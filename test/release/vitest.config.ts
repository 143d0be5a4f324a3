import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Installs packages from the registry, so it is not part of `npm test`: `.ci/release` runs this.
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
