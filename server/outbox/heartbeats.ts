import type { Sql } from "../database/db.js";
import { STALE_AFTER_SECONDS } from "./figures.js";
import { factsSql, nextAttemptAfter, stateType } from "./rows.js";
import { nounOf, type OutboxTable } from "./states.js";

/** After this many consecutive crashes, the row is assumed to be the cause. */
const MAX_CRASHES = 5;
const CRASHED = `its worker crashed at each of ${MAX_CRASHES} attempts in a row`;

// Leaves out what is being recorded at this moment.
const heartbeatSql = (table: OutboxTable) => `
  UPDATE ${table} SET heartbeat_at = now()
  WHERE id = ANY(ARRAY(
    SELECT n.id FROM ${table} n
    WHERE n.id = ANY($2::bigint[]) AND n.state::text = 'running' AND n.worker_id = $1
    FOR NO KEY UPDATE SKIP LOCKED))`;

/** Reports that this worker is still sending these rows. */
export async function sendHeartbeat(db: Sql, table: OutboxTable, workerId: string, ids: string[]): Promise<void> {
  if (ids.length > 0) await db.query(`heartbeat-${nounOf(table)}`, heartbeatSql(table), [workerId, ids]);
}

/** A row that a stale worker left behind. */
export interface Released {
  facts: object;
  crashes: number;
  /** Why it was given up; null if it will be retried. */
  givenUp: string | null;
}

const IS_CRASHING = "(n.crashes + 1 >= $2::int)";

// An attempt whose worker crashed counts in `crashes` instead of `attempts`, so that a message that crashes its worker is not
// retried forever. This also releases rows whose claim committed on a connection that was lost: no worker sends heartbeats for
// them.
const releaseSql = (table: OutboxTable) => `
  UPDATE ${table} n
  SET attempts = n.attempts - 1, crashes = n.crashes + 1,
    state = CASE WHEN ${IS_CRASHING} THEN 'failed' WHEN n.attempts > 1 THEN 'retrying' ELSE 'waiting' END::${stateType(table)},
    last_error = CASE WHEN ${IS_CRASHING} THEN $3 ELSE n.last_error END,
    next_attempt_at = CASE WHEN NOT ${IS_CRASHING} THEN ${nextAttemptAfter("n.crashes + 1")} END,
    ended_at = CASE WHEN ${IS_CRASHING} THEN now() END
  WHERE n.id = ANY(ARRAY(
    SELECT id FROM ${table} WHERE state = 'running' AND state <> 'sent' AND heartbeat_at < now() - make_interval(secs => $1)
    FOR NO KEY UPDATE SKIP LOCKED))
  RETURNING ${factsSql(table)} AS facts, n.crashes, CASE WHEN n.state = 'failed' THEN n.last_error END AS "givenUp"`;

/** Releases the rows of stale workers. One released too often is given up. */
export const releaseStale = (db: Sql, table: OutboxTable): Promise<Released[]> =>
  db.query<Released>(`release-${nounOf(table)}`, releaseSql(table), [STALE_AFTER_SECONDS, MAX_CRASHES, CRASHED]);
