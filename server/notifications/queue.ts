import { countSql } from "../background/activity.js";
import type { Sql } from "../database/db.js";
import { auditExpired, FORM_CREATED } from "./expiry.js";
import { STALE_AFTER_SECONDS } from "./figures.js";

/** SQL that enqueues notifications; `created` is a query of form ids, check-in dates and the correlation ids of the creates. */
export const enqueueFormCreated = (created: string) => `
  INSERT INTO notifications (kind, form_id, check_in_date, correlation_id)
  SELECT '${FORM_CREATED}', form_id, check_in_date, correlation_id
  FROM (${created}) AS created (form_id, check_in_date, correlation_id)`;

/** SQL that follows the form's check-in date, so that the nearest stay stays first. */
export const moveNotifications = (formId: string, checkInDate: string) => `
  UPDATE notifications SET check_in_date = ${checkInDate}
  WHERE form_id = ${formId} AND state <> 'sent' AND check_in_date <> ${checkInDate}`;

const CANCEL = `
  DELETE FROM notifications WHERE form_id = ANY($1::uuid[]) AND state::text IN ('waiting', 'retrying', 'failed')
  RETURNING id`;

/** Removes the unsent notifications of these forms, except those being sent right now, and returns their number. */
export async function cancelNotifications(sql: Sql, formIds: string[]): Promise<number> {
  return (await sql.query("cancel-notifications", CANCEL, [formIds])).length;
}

/** With the backoff below this takes four days, as RFC 5321 (4.5.4.1) recommends. */
const MAX_ATTEMPTS = 25;
/** After this many consecutive crashes, the message is assumed to be the cause. */
const MAX_CRASHES = 5;
const CRASHED = `its worker crashed at each of ${MAX_CRASHES} attempts in a row`;

/** Fields of every log line about a notification. */
interface NotificationFacts {
  notificationId: string;
  formId: string;
  /** Of the create. */
  correlationId: string;
}

/** A notification that this worker has claimed. */
export interface Claimed extends NotificationFacts {
  attempts: number;
}

/** A notification that a stale worker left behind. */
export interface Released extends NotificationFacts {
  crashes: number;
  /** Why it was given up; null if it will be retried. */
  givenUp: string | null;
}

/** The notifications table as a queue for one worker. */
export const createQueue = (db: Sql, workerId: string) => ({
  /** Claims a due notification, that of the nearest stay first. */
  async claim(): Promise<Claimed | undefined> {
    const [claimed] = await db.query<Claimed>("claim-notification", CLAIM, [workerId]);
    return claimed;
  },

  /** Reports that this worker is still sending these notifications. */
  heartbeat: (ids: string[]) => db.query("notification-heartbeat", HEARTBEAT, [workerId, ids]),

  /** Releases the notifications of stale workers. One released too often is given up. */
  releaseStale: (): Promise<Released[]> =>
    db.query("release-stale-notifications", RELEASE_STALE, [STALE_AFTER_SECONDS, MAX_CRASHES, CRASHED]),

  markSent: (id: string) => db.query("mark-notification-sent", MARK_SENT, [id]),

  /** Schedules the next attempt, unless this one was final. */
  markFailed: (id: string, reason: string, isFinal: boolean) =>
    db.query("mark-notification-failed", MARK_FAILED, [id, workerId, reason, isFinal]),

  /** Ends a notification that this worker claimed too late: see `expiry.ts`. The attempt does not count. */
  markExpired: (id: string) => db.query("mark-notification-expired", MARK_EXPIRED, [id, workerId]),

  /** Removes a notification that no longer has a recipient. */
  remove: (id: string) => db.query("remove-notification", "DELETE FROM notifications WHERE id = $1::bigint", [id]),
});

export type Queue = ReturnType<typeof createQueue>;

export const isLastAttempt = ({ attempts }: Claimed): boolean => attempts >= MAX_ATTEMPTS;

const FACTS = `
  id::text AS "notificationId", form_id::text AS "formId", correlation_id::text AS "correlationId"`;

// Reads notifications_due_idx in order until one is due. With `state::text` the planner cannot use notifications_unsent_idx
// instead, and sort everything that is due for each claim.
const CLAIM = `
  UPDATE notifications
  SET state = 'running', attempts = attempts + 1, worker_id = $1, heartbeat_at = now()
  WHERE id = (
    SELECT id FROM notifications
    WHERE state::text IN ('waiting', 'retrying') AND kind = '${FORM_CREATED}' AND next_attempt_at <= now()
    ORDER BY check_in_date, id LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING ${FACTS}, attempts`;

const HEARTBEAT = `
  UPDATE notifications SET heartbeat_at = now()
  WHERE id = ANY($2::bigint[]) AND state = 'running' AND worker_id = $1`;

/** Exponential backoff (factor e), up to six hours. */
const pauseAfter = (failures: string) => `now() + interval '1 second' * exp(least(10, ${failures}))`;

const IS_CRASHING = "(crashes + 1 >= $2::int)";

// An attempt whose worker crashed counts in `crashes` instead of `attempts`, so that a message that crashes its worker is not
// retried forever. The backoff has jitter, so that the messages of one crashed worker are not sent together again. This also
// releases rows whose claim committed on a connection that was lost: no worker sends heartbeats for them.
const RELEASE_STALE = `
  WITH released AS (UPDATE notifications
  SET attempts = attempts - 1, crashes = crashes + 1,
    state = CASE WHEN ${IS_CRASHING} THEN 'failed' WHEN attempts > 1 THEN 'retrying' ELSE 'waiting' END::"NotificationState",
    last_error = CASE WHEN ${IS_CRASHING} THEN $3 ELSE last_error END,
    next_attempt_at = CASE WHEN ${IS_CRASHING} THEN NULL ELSE ${pauseAfter("crashes + 0.5 + random()")} END
  WHERE state = 'running' AND heartbeat_at < now() - make_interval(secs => $1)
  RETURNING ${FACTS}, crashes, CASE WHEN state = 'failed' THEN last_error END AS "givenUp"),
  counted AS (${countSql("'notification.crashed'", "released")})
  SELECT * FROM released`;

/** Also counts the outcome, in the same statement. */
const withOutcome = (update: string) =>
  `WITH ended AS (${update} RETURNING state) ${countSql("'notification.' || state", "ended")}`;

// Also applies if another worker has taken over: the message must not be sent again.
const MARK_SENT = withOutcome(`
  UPDATE notifications SET state = 'sent', sent_at = now(), next_attempt_at = NULL
  WHERE id = $1::bigint AND state <> 'sent'`);

// Has no effect if another worker has taken over: it expires it, too.
const MARK_EXPIRED = `
  WITH expired AS (
    UPDATE notifications SET state = 'expired', attempts = attempts - 1, next_attempt_at = NULL
    WHERE id = $1::bigint AND state = 'running' AND worker_id = $2
    RETURNING id, form_id, correlation_id)
  ${auditExpired("expired")}`;

// Has no effect if another worker has taken over.
const MARK_FAILED = withOutcome(`
  UPDATE notifications
  SET last_error = $3, crashes = 0, state = CASE WHEN $4::boolean THEN 'failed' ELSE 'retrying' END::"NotificationState",
    next_attempt_at = CASE WHEN $4::boolean THEN NULL ELSE ${pauseAfter("attempts")} END
  WHERE id = $1::bigint AND state = 'running' AND worker_id = $2`);
