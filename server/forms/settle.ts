import { setTimeout as sleep } from "node:timers/promises";
import { type Sql, Unavailable } from "../db.js";

/** Two halves of an advisory lock: any numbers, the same in every version of this package. */
const CREATING = "727073, 1";

/** A creating transaction holds this from before it takes the form's time until it has ended. */
export const NOTE_CREATING = `pg_advisory_xact_lock_shared(${CREATING})`;

// The clock before the locks: a create that is not among these has yet to take its time.
const UNDER_WAY = `
  WITH clock AS MATERIALIZED (SELECT clock_timestamp() > $1::timestamptz + interval '1 ms' AS has_passed)
  SELECT has_passed AS "hasPassed", CASE WHEN has_passed THEN (
    SELECT coalesce(array_agg(virtualtransaction), '{}') FROM pg_locks
    WHERE clock.has_passed AND locktype = 'advisory' AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (classid::bigint, objid::bigint) = (${CREATING}) AND objsubid = 2
  ) ELSE '{}' END AS creating
  FROM clock`;

const PATIENCE_MS = 2_000;
const PAUSE_MS = 3;

/**
 * Waits until every form with this time or an earlier one can be seen or never will: creates that were under way at
 * this moment have ended, and later ones take a later time. Writers do not notice. Unavailable where a create takes
 * too long.
 */
export async function settle(sql: Sql, createdAt: string): Promise<void> {
  let waitedFor: string[] | undefined;
  for (const since = performance.now(); ; await sleep(PAUSE_MS)) {
    const [now] = await sql.query<{ hasPassed: boolean; creating: string[] }>("creating", UNDER_WAY, [
      createdAt,
    ]);
    if (now?.hasPassed) {
      waitedFor = (waitedFor ?? now.creating).filter((one) => now.creating.includes(one));
      if (waitedFor.length === 0) return;
    }
    if (performance.now() - since > PATIENCE_MS) throw new Unavailable("creates under way take too long");
  }
}
