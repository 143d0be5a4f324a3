import pg from "pg";
import { expect, onTestFinished } from "vitest";
import type { Services } from "../../server/access/context.js";

/** Runs a statement in a transaction on another connection, which holds its locks until the transaction or the test ends. */
export async function holdLock({ db }: { db: { url: string } }, sql: string, values: unknown[] = []) {
  // The role may have a timeout of its own, behind PgBouncer.
  const timeout = { idle_in_transaction_session_timeout: 60_000 };
  const client = new pg.Client({ connectionString: db.url, application_name: "test", ...timeout });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("BEGIN");
  await client.query(sql, values);
  return {
    client,
    commit: () => client.query("COMMIT"),
    rollback: () => client.query("ROLLBACK"),
  };
}

/** Waits until `count` statements wait for a lock. Returns their backend pids, the longest-running first. */
export async function waitForBlocked({ db }: Pick<Services, "db">, count: number): Promise<number[]> {
  let pids: number[] = [];
  const readBlocked = async () => {
    const { rows } = await db.pool.query<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity
       WHERE datname = current_database() AND wait_event_type = 'Lock' ORDER BY query_start`,
    );
    pids = rows.map(({ pid }) => pid);
    return pids.length;
  };
  await expect.poll(readBlocked, { interval: 10 }).toBe(count);
  return pids;
}

/** Blocks the creates of these users at their end, after they have inserted all their rows. */
export const LOCK_USERS = "SELECT FROM users WHERE id = ANY($1) FOR UPDATE";
