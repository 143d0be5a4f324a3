import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Other projects' tools: `.ci/judges/run` installs those and runs this, `npm test` does not.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/judges/**/*.judge.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    hookTimeout: 60_000,
  },
});
