import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Needs Debian's pgbouncer: `.ci/pgbouncer` installs it and runs this, `npm test` does not.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/fleet-pgbouncer/**/*.fleet.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    // Neither the machine's time zone nor the database's may matter.
    env: { TZ: "Asia/Kolkata" },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
