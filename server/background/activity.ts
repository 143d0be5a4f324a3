import type { Sql } from "../database/db.js";

// Worker activity is counted in the database because workers listen on no port. Gateways read it for their metrics.

/** Tables whose rows the worker deletes some time after their use. */
export const RETENTION_TABLES = ["audit_entries", "notifications", "idempotency_keys"] as const;

/** Heartbeats of workers with and without a mailer, outcomes of attempts, retention runs, and rows deleted by them. */
export type Activity =
  | "worker.sending"
  | "worker.waiting"
  | `notification.${"sent" | "retrying" | "failed" | "crashed"}`
  | `delivery.${"sent" | "retrying" | "failed" | "out_of_scope" | "crashed"}`
  | "retention.run"
  | `deleted.${(typeof RETENTION_TABLES)[number]}`;

/** Count since the first migration. */
export interface ActivityCount {
  count: number;
  /** Unix time, in seconds. */
  lastAt: number;
  /** Seconds since `lastAt`, by the database's clock. */
  age: number;
}

/**
 * SQL that counts each row of `rows` as an activity; `name` is an SQL expression for its name. Use it in the statement that
 * produces the rows, so that both happen or neither.
 */
export const countSql = (name: string, rows: string): string => `
  INSERT INTO worker_activity AS known (name, count, last_at)
  SELECT ${name}, count(*), now() FROM ${rows} GROUP BY 1
  ON CONFLICT (name) DO UPDATE SET count = known.count + excluded.count, last_at = excluded.last_at`;

const COUNT_ONE = countSql("$1::text", "(VALUES (1)) AS one");

export async function recordActivity(db: Sql, activity: Activity): Promise<void> {
  await db.query("record-activity", COUNT_ONE, [activity]);
}

const READ = `
  SELECT name, count::float8, extract(epoch FROM last_at)::float8 AS "lastAt",
    extract(epoch FROM now() - last_at)::float8 AS age
  FROM worker_activity`;

/** Activities that never happened are absent. */
export async function readActivity(db: Sql): Promise<Map<Activity, ActivityCount>> {
  const rows = await db.query<ActivityCount & { name: Activity }>("read-activity", READ, []);
  return new Map(rows.map(({ name, ...done }) => [name, done]));
}
