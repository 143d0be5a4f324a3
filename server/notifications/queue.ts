import type { Sql } from "../db.js";
import { FORM_CREATED } from "./enqueue.js";

/** With the backoff below these take four days, as long as RFC 5321 (4.5.4.1) advises senders to try. */
const MAX_ATTEMPTS = 25;
/** A worker without a heartbeat for this long is stale. */
export const STALE_AFTER_SECONDS = 20;

/** A notification that this worker is to send. */
export interface Claimed {
  id: string;
  formId: string;
  attempts: number;
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

    /** Releases the notifications of stale workers and returns their ids. */
    async releaseStale(): Promise<string[]> {
      const rows = await db.query<{ id: string }>("release-stale-notifications", RELEASE_STALE, [
        STALE_AFTER_SECONDS,
      ]);
      return rows.map(({ id }) => id);
    },

    async markSent(id: string): Promise<void> {
      await db.query("mark-notification-sent", MARK_SENT, [id]);
    },

    /** Schedules the next attempt, unless this one is final or the last. */
    async markFailed(id: string, reason: string, isFinal: boolean): Promise<void> {
      await db.query("mark-notification-failed", MARK_FAILED, [id, workerId, reason, isFinal, MAX_ATTEMPTS]);
    },

    /** Removes a notification that has no recipient any more. */
    async remove(id: string): Promise<void> {
      await db.query("remove-notification", "DELETE FROM notifications WHERE id = $1::bigint", [id]);
    },
  };
}

export type Queue = ReturnType<typeof openQueue>;

const CLAIM = `
  UPDATE notifications
  SET state = 'running', attempts = attempts + 1, worker_id = $1, heartbeat_at = now()
  WHERE id = (
    SELECT id FROM notifications
    WHERE state IN ('waiting', 'retrying') AND kind = '${FORM_CREATED}' AND next_attempt_at <= now()
    ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING id::text, form_id::text AS "formId", attempts`;

const HEARTBEAT = `
  UPDATE notifications SET heartbeat_at = now()
  WHERE id = ANY($2::bigint[]) AND state = 'running' AND worker_id = $1`;

// Attempts whose worker crashed are not counted. This also releases what was claimed on a connection that was lost
// before the answer arrived, because no worker sends heartbeats for it.
const RELEASE_STALE = `
  UPDATE notifications
  SET state = CASE WHEN attempts > 1 THEN 'retrying' ELSE 'waiting' END::"NotificationState", attempts = attempts - 1
  WHERE state = 'running' AND heartbeat_at < now() - make_interval(secs => $1)
  RETURNING id::text`;

// Whichever worker it belongs to by now: the message must not be sent again.
const MARK_SENT = `
  UPDATE notifications SET state = 'sent', sent_at = now(), next_attempt_at = NULL WHERE id = $1::bigint`;

const IS_FINAL = "($4::boolean OR attempts >= $5::int)";

// Pauses grow by a factor of e up to six hours. A notification that another worker has taken over is left to it.
const MARK_FAILED = `
  UPDATE notifications
  SET last_error = $3, state = CASE WHEN ${IS_FINAL} THEN 'failed' ELSE 'retrying' END::"NotificationState",
    next_attempt_at = CASE WHEN ${IS_FINAL} THEN NULL ELSE now() + interval '1 second' * exp(least(10, attempts)) END
  WHERE id = $1::bigint AND state = 'running' AND worker_id = $2`;
