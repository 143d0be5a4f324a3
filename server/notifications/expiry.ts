import type { Log, Services } from "../access/context.js";
import { auditBySystemSql } from "../audit.js";
import { INVITATION } from "../outbox/enqueue.js";

/** SQL: the stay of form `f` is over, by the database's clock. */
export const IS_OVER = "coalesce(f.check_out_date <= now(), false)";

/** SQL: the guest of form `f` needs no invitation anymore. */
export const NEEDS_NO_INVITATION = `(${IS_OVER} OR f.status <> 'SENT')`;

/** SQL that audits the notifications that `rows` names. */
export const auditExpired = (rows: string) =>
  auditBySystemSql(
    "notification.expired",
    `SELECT form_id, correlation_id, jsonb_build_object('notificationId', id::text) FROM ${rows}`,
  );

/** Unsent notifications per statement. */
const BATCH = 500;

// Locks only the rows that expire. Those that a worker is claiming are left to it: it checks again before it sends.
const EXPIRE = `
  WITH examined AS MATERIALIZED (
    SELECT id, check_in_date FROM notifications
    WHERE next_attempt_at IS NOT NULL AND event_id IS NULL AND (check_in_date, id) > ($1::timestamptz, $2::bigint)
    ORDER BY check_in_date, id LIMIT ${BATCH}
  ), due AS MATERIALIZED (
    SELECT n.id
    FROM notifications n JOIN forms f ON f.id = n.form_id
    WHERE n.id = ANY(ARRAY(SELECT id FROM examined))
      AND n.state::text IN ('waiting', 'retrying') AND n.kind = '${INVITATION}' AND ${NEEDS_NO_INVITATION}
    FOR UPDATE OF n SKIP LOCKED
  ), expired AS (
    UPDATE notifications SET state = 'expired', next_attempt_at = NULL
    WHERE id = ANY(ARRAY(SELECT id FROM due))
    RETURNING id, form_id, correlation_id
  ), audited AS (
    ${auditExpired("expired")}
  )
  SELECT check_in_date::text AS "checkInDate", id::text, (SELECT count(*)::int FROM expired) AS expired
  FROM examined ORDER BY examined.check_in_date DESC, examined.id DESC LIMIT 1`;

/** The last notification of a batch, and how many of the batch have expired. */
interface Batch {
  checkInDate: string;
  id: string;
  expired: number;
}

/** Ends the unsent notifications whose stay is over or whose form is past SENT, in batches, in the order of the claim. */
export async function expireNotifications(
  { db }: Pick<Services, "db">,
  log: Pick<Log, "info">,
  signal?: AbortSignal,
): Promise<void> {
  let notifications = 0;
  for (let last: Batch | undefined = { checkInDate: "-infinity", id: "0", expired: 0 }; last; ) {
    if (signal?.aborted) break;
    [last] = await db.query<Batch>("expire-notifications", EXPIRE, [last.checkInDate, last.id]);
    notifications += last?.expired ?? 0;
  }
  if (notifications > 0) log.info({ notifications }, "notifications expired");
}
