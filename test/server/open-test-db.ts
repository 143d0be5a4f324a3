import pg from "pg";
import { onTestFinished } from "vitest";
import { type Db, openDb } from "../../server/db.js";
import type { DbSettings } from "../../server/pool.js";

export const LONG_TIMEOUTS = {
  poolSize: 4,
  connectTimeoutMs: 5_000,
  statementTimeoutMs: 5_000,
  lockTimeoutMs: 4_000,
};

/** Opens a database with these settings. Closed after the test. */
export function openTestDb(settings: Partial<DbSettings> & { url: string }): Db {
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
