import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Needs third-party tools, so it is not part of `npm test`: `.ci/openapi-checks/run` installs them and runs this.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/openapi-checks/**/*.check.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    hookTimeout: 60_000,
  },
});
