import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { inject } from "vitest";
import { afterFile } from "./after-file.js";
import { runSql } from "./run-sql.js";

export interface TestDatabase {
  /** postgres:// URL. */
  url: string;
  /** Drops it now and disconnects its clients. Otherwise it is dropped after the test file. */
  drop(): Promise<unknown>;
}

/** Settings with longer timeouts than the defaults, because many tests run in parallel on a busy machine. */
export const LONG_DATABASE_TIMEOUTS = {
  DATABASE_CONNECT_TIMEOUT_MS: "10000",
  DATABASE_STATEMENT_TIMEOUT_MS: "10000",
  DATABASE_LOCK_TIMEOUT_MS: "9000",
};

/** Not UTC, so tests fail if a session does not set its own time zone. */
const DATABASE_TIME_ZONE = "America/New_York";
const OBJECT_IN_USE = "55006";

/** Creates a database for one test: migrated, or empty. */
export async function createTestDatabase({ empty = false } = {}): Promise<TestDatabase> {
  const name = `${inject("template")}_${randomBytes(4).toString("hex")}`;
  const source = empty ? "template0" : inject("template");
  for (let attempt = 1; ; attempt++) {
    try {
      await runSql(inject("serverUrl"), `CREATE DATABASE "${name}" TEMPLATE "${source}"`);
      break;
    } catch (error) {
      const isBusy = error instanceof pg.DatabaseError && error.code === OBJECT_IN_USE;
      if (!isBusy || attempt === 20) throw error;
      await sleep(50 * attempt);
    }
  }
  await runSql(inject("serverUrl"), `ALTER DATABASE "${name}" SET timezone TO '${DATABASE_TIME_ZONE}'`);
  const url = new URL(inject("serverUrl"));
  url.pathname = name;
  const drop = () => runSql(inject("serverUrl"), `DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
  afterFile(drop);
  return { url: url.href, drop };
}
