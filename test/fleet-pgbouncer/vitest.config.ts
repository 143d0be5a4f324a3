import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Needs PgBouncer, so it is not part of `npm test`: `.ci/pgbouncer` installs it and runs this.
export default defineConfig({
  test: {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    include: ["test/fleet-pgbouncer/**/*.fleet.ts"],
    globalSetup: ["test/global-setup.ts"],
    pool: "forks",
    // Results must not depend on the time zone of the machine or the database.
    env: { TZ: "Asia/Kolkata" },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
