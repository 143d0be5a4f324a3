import type { Sql } from "./db.js";

// What workers do is counted in the database, because they listen on no port: a gateway reads it for its metrics.

/** Heartbeats of workers that send and of those without a mailer, outcomes of attempts, and runs of the retention. */
export type Activity =
  | "worker.sending"
  | "worker.waiting"
  | `notification.${"sent" | "retrying" | "failed" | "crashed"}`
  | "retention.run";

/** What workers have done since the first migration. */
export interface ActivityCount {
  count: number;
  /** Unix time, in seconds. */
  lastAt: number;
  /** Seconds since `lastAt`, by the database's clock. */
  age: number;
}

/**
 * SQL that counts each row of `rows` as an activity, whose name is the SQL expression `name`. It belongs into the statement
 * that makes the rows, so that both happen or neither.
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

/** What has never happened is absent. */
export async function readActivity(db: Sql): Promise<Map<Activity, ActivityCount>> {
  const rows = await db.query<ActivityCount & { name: Activity }>("read-activity", READ, []);
  return new Map(rows.map(({ name, ...done }) => [name, done]));
}
