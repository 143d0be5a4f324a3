import { countSql } from "../background/activity.js";
import type { Sql } from "../database/db.js";
import { STALE_AFTER_SECONDS } from "./figures.js";

// What emails and webhook deliveries have in common as rows of `notifications`.

/** After this many consecutive crashes, the row is assumed to be the cause. */
const MAX_CRASHES = 5;
const CRASHED = `its worker crashed at each of ${MAX_CRASHES} attempts in a row`;

/** Fields of every log line about a row. */
export interface Facts {
  notificationId: string;
  formId: string | null;
  endpointId?: string | null;
  /** Of the request that caused it. */
  correlationId: string;
}

/** A row that this worker has claimed. */
export interface Claimed extends Facts {
  /** Attempts with this one. */
  attempts: number;
}

/** A row that a stale worker left behind. */
export interface Released extends Facts {
  crashes: number;
  /** Why it was given up; null if it will be retried. */
  givenUp: string | null;
}

/** The rows that one worker has claimed. */
export const createQueue = (db: Sql, workerId: string) => ({
  db,
  workerId,

  /** Reports that this worker is still sending these. */
  heartbeat: (ids: string[]) => db.query("notification-heartbeat", HEARTBEAT, [workerId, ids]),

  /** Releases the rows of stale workers. One released too often is given up. */
  releaseStale: (): Promise<Released[]> =>
    db.query("release-stale-notifications", RELEASE_STALE, [STALE_AFTER_SECONDS, MAX_CRASHES, CRASHED]),
});

export type Queue = ReturnType<typeof createQueue>;

/** The facts of `notifications n`. */
export const FACTS = `n.id::text AS "notificationId", n.form_id::text AS "formId", n.correlation_id::text AS "correlationId"`;

/** SQL: `n` waits for an attempt that is due. As text, so that the planner does not read an index on states instead. */
export const IS_DUE = "n.state::text IN ('waiting', 'retrying') AND n.next_attempt_at <= now()";

/** SQL that makes the rows with the ids in `due` running, by the worker $1. */
export const startAttempts = (due: string, returning: string) => `
  UPDATE notifications n
  SET state = 'running', attempts = attempts + 1, worker_id = $1, heartbeat_at = now()
  WHERE n.id = ANY(ARRAY(SELECT id FROM (${due}) AS due))
  RETURNING ${returning}`;

/** SQL: this worker's attempt ($1 the row, $2 the worker) is still the current one. As text, as above. */
export const IS_OWN_ATTEMPT = "n.id = $1::bigint AND n.state::text = 'running' AND n.worker_id = $2";

const HEARTBEAT = `
  UPDATE notifications SET heartbeat_at = now()
  WHERE id = ANY($2::bigint[]) AND state::text = 'running' AND worker_id = $1`;

/** SQL: the time of the next attempt. Exponential backoff (factor e), up to six hours. */
export const nextAttemptAfter = (failures: string) => `now() + interval '1 second' * exp(least(10, ${failures}))`;

const IS_CRASHING = "(crashes + 1 >= $2::int)";

// An attempt whose worker crashed counts in `crashes` instead of `attempts`, so that a message that crashes its worker is not
// retried forever. The backoff has jitter, so that the messages of one crashed worker are not sent together again. This also
// releases rows whose claim committed on a connection that was lost: no worker sends heartbeats for them.
const RELEASE_STALE = `
  WITH released AS (UPDATE notifications n
  SET attempts = attempts - 1, crashes = crashes + 1,
    state = CASE WHEN ${IS_CRASHING} THEN 'failed' WHEN attempts > 1 THEN 'retrying' ELSE 'waiting' END::"NotificationState",
    last_error = CASE WHEN ${IS_CRASHING} THEN $3 ELSE last_error END,
    next_attempt_at = CASE WHEN ${IS_CRASHING} THEN NULL ELSE ${nextAttemptAfter("crashes + 0.5 + random()")} END
  WHERE state = 'running' AND heartbeat_at < now() - make_interval(secs => $1)
  RETURNING ${FACTS}, n.endpoint_id::text AS "endpointId", n.event_id, crashes,
    CASE WHEN state = 'failed' THEN last_error END AS "givenUp"),
  counted AS (${countSql("CASE WHEN event_id IS NULL THEN 'notification.crashed' ELSE 'delivery.crashed' END", "released")})
  SELECT "notificationId", "formId", "endpointId", "correlationId", crashes, "givenUp" FROM released`;
