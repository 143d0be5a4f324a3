import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Needs Chromium, so it is not part of `npm test`: `.ci/browser` runs this.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/browser/**/*.browser.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    testTimeout: 60_000,
    hookTimeout: 180_000,
  },
});
