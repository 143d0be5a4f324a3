import type { Sql } from "../database/db.js";
import type { RETENTION_TABLES } from "../database/retention.js";

// What workers do is counted in the database because they listen on no port; gateways read it for their metrics. All workers add to
// the same rows, so each counts in memory and adds its counts with its heartbeat: a row that every message updates would make all
// workers wait for each other's commits.

type Outcome = "sent" | "retrying" | "failed" | "expired" | "crashed";

/** Heartbeats of workers with and without a mailer, outcomes of attempts, retention runs, and rows deleted by them. */
export type Activity =
  | "worker.with_mailer"
  | "worker.without_mailer"
  | `email.${Outcome}`
  | `delivery.${Outcome | "out_of_scope"}`
  | "retention.run"
  | `deleted.${(typeof RETENTION_TABLES)[number]}`;

/** Counts of one worker that are not in the database yet. A worker that is killed loses those since its last heartbeat. */
export class ActivityCounts {
  readonly #counts = new Map<Activity, number>();

  add(activity: Activity, count = 1): void {
    if (count > 0) this.#counts.set(activity, (this.#counts.get(activity) ?? 0) + count);
  }

  /** Adds the counts to the database. They are kept if that fails. */
  async flush(db: Sql): Promise<void> {
    const counts = [...this.#counts];
    if (counts.length === 0) return;
    this.#counts.clear();
    try {
      await db.query("add-activity", ADD, [counts.map(([name]) => name), counts.map(([, count]) => count)]);
    } catch (error) {
      for (const [name, count] of counts) this.add(name, count);
      throw error;
    }
  }
}

/** SQL that adds the counts in `counts`, a query of names and counts. */
export const addCounts = (counts: string) => `
  INSERT INTO worker_activity AS known (name, count, last_at)
  SELECT name, count, now() FROM (${counts}) AS added (name, count)
  ON CONFLICT (name) DO UPDATE SET count = known.count + excluded.count, last_at = excluded.last_at`;

// Sorted, so that two workers do not deadlock.
const ADD = addCounts("SELECT * FROM unnest($1::text[], $2::bigint[]) ORDER BY 1");

/** Count since the first migration. */
export interface ActivityCount {
  count: number;
  /** Unix time, in seconds. */
  lastAt: number;
  /** Seconds since `lastAt`, by the database's clock. */
  age: number;
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
