import pg from "pg";
import { onTestFinished } from "vitest";
import { type Db, openDb } from "../../server/database/db.js";
import type { DbSettings } from "../../server/database/pool.js";

export const LONG_TIMEOUTS = {
  DATABASE_PREPARED: true,
  DATABASE_POOL_SIZE: 4,
  DATABASE_CONNECT_TIMEOUT_MS: 5_000,
  DATABASE_STATEMENT_TIMEOUT_MS: 5_000,
  DATABASE_LOCK_TIMEOUT_MS: 4_000,
};

/** Opens a database with these settings. Closed after the test. */
export function openTestDb(settings: Partial<DbSettings>): Db {
  const db = openDb({ ...LONG_TIMEOUTS, ...settings });
  onTestFinished(() => db.close());
  return db;
}

/** Opens a connection outside the pool. Closed after the test. */
export async function openClient(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  // Some tests terminate it.
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

export async function catchError(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => {
      throw new Error("the work succeeded");
    },
    (error: unknown) => error,
  );
}
