import type { Sql } from "../db.js";
import { countSql } from "../worker-activity.js";

/** The kind of the notification that asks a guest to fill in a new form. */
const FORM_CREATED = "form.created";

/**
 * SQL that enqueues such messages, as part of the statement that creates the forms; `created` is a query of their ids and
 * the correlation ids of the creates.
 */
export const enqueueFormCreated = (created: string) => `
  INSERT INTO notifications (kind, form_id, correlation_id)
  SELECT '${FORM_CREATED}', form_id, correlation_id FROM (${created}) AS created (form_id, correlation_id)`;

/** With the backoff below these take four days, as long as RFC 5321 (4.5.4.1) advises senders to try. */
const MAX_ATTEMPTS = 25;
/** So many crashes in a row are taken to be the message's doing. */
const MAX_CRASHES = 5;
const CRASHED = `its worker crashed at each of ${MAX_CRASHES} attempts in a row`;
/** A worker without a heartbeat for this long is stale. */
export const STALE_AFTER_SECONDS = 20;

/** What log lines about a notification have in common. */
export interface NotificationFacts {
  notificationId: string;
  formId: string;
  /** Of the create; null if the notification is older than the column. */
  correlationId: string | null;
}

/** A notification that this worker is to send. */
export interface Claimed extends NotificationFacts {
  attempts: number;
}

/** A notification that a stale worker left behind. */
export interface Released extends NotificationFacts {
  crashes: number;
  /** Why it is given up; null if it is tried again. */
  givenUp: string | null;
}

/** The notifications table as a queue, for the worker with this id. */
export function openQueue(db: Sql, workerId: string) {
  return {
    /** The next notification that is due. */
    async claim(): Promise<Claimed | undefined> {
      const [claimed] = await db.query<Claimed>("claim-notification", CLAIM, [workerId]);
      return claimed;
    },

    /** Reports that the attempts at these notifications are under way. */
    async heartbeat(ids: string[]): Promise<void> {
      await db.query("notification-heartbeat", HEARTBEAT, [workerId, ids]);
    },

    /** Releases the notifications of stale workers. One that has been released too often is given up. */
    releaseStale(): Promise<Released[]> {
      return db.query("release-stale-notifications", RELEASE_STALE, [
        STALE_AFTER_SECONDS,
        MAX_CRASHES,
        CRASHED,
      ]);
    },

    async markSent(id: string): Promise<void> {
      await db.query("mark-notification-sent", MARK_SENT, [id]);
    },

    /** Schedules the next attempt, unless this one was final. */
    async markFailed(id: string, reason: string, isFinal: boolean): Promise<void> {
      await db.query("mark-notification-failed", MARK_FAILED, [id, workerId, reason, isFinal]);
    },

    /** Removes a notification that has no recipient any more. */
    async remove(id: string): Promise<void> {
      await db.query("remove-notification", "DELETE FROM notifications WHERE id = $1::bigint", [id]);
    },
  };
}

export type Queue = ReturnType<typeof openQueue>;

/** Whether no attempt follows this one. */
export const isLastAttempt = ({ attempts }: Claimed): boolean => attempts >= MAX_ATTEMPTS;

const FACTS = `
  id::text AS "notificationId", form_id::text AS "formId", correlation_id::text AS "correlationId"`;

const CLAIM = `
  UPDATE notifications
  SET state = 'running', attempts = attempts + 1, worker_id = $1, heartbeat_at = now()
  WHERE id = (
    SELECT id FROM notifications
    WHERE state IN ('waiting', 'retrying') AND kind = '${FORM_CREATED}' AND next_attempt_at <= now()
    ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING ${FACTS}, attempts`;

const HEARTBEAT = `
  UPDATE notifications SET heartbeat_at = now()
  WHERE id = ANY($2::bigint[]) AND state = 'running' AND worker_id = $1`;

/** Pauses grow by a factor of e up to six hours. */
const pauseAfter = (failures: string) => `now() + interval '1 second' * exp(least(10, ${failures}))`;

const IS_CRASHING = "(crashes + 1 >= $2::int)";

// An attempt whose worker crashed counts as a crash instead, so that a message that crashes its worker is not retried for
// ever. The pause lets other messages pass it; it is random, so that
// messages that were in one crashed worker do not all meet again. This also releases what was claimed on a connection that was lost before
// the answer arrived, because no worker sends heartbeats for it.
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

/** Counts the outcome of the attempt in the same statement. */
const withOutcome = (update: string) =>
  `WITH ended AS (${update} RETURNING state) ${countSql("'notification.' || state", "ended")}`;

// Whichever worker it belongs to by now: the message must not be sent again.
const MARK_SENT = withOutcome(`
  UPDATE notifications SET state = 'sent', sent_at = now(), next_attempt_at = NULL
  WHERE id = $1::bigint AND state <> 'sent'`);

// A notification that another worker has taken over is left to it.
const MARK_FAILED = withOutcome(`
  UPDATE notifications
  SET last_error = $3, crashes = 0, state = CASE WHEN $4::boolean THEN 'failed' ELSE 'retrying' END::"NotificationState",
    next_attempt_at = CASE WHEN $4::boolean THEN NULL ELSE ${pauseAfter("attempts")} END
  WHERE id = $1::bigint AND state = 'running' AND worker_id = $2`);
