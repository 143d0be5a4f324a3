import type { Log, Services } from "../access/context.js";
import { auditBySystemSql } from "../audit-trail/audit.js";
import { logLevelOf } from "../database/failures.js";
import { withAdvice } from "../database/writes.js";
import type { ActivityCounts } from "../outbox/activity.js";
import { ENDPOINT_DISABLED, INVITATION, IS_REPLACED } from "../outbox/enqueue.js";
import type { Job } from "../outbox/jobs.js";

/** SQL: the stay of form `f` is over, by the database's clock. */
export const IS_OVER = "coalesce(f.check_out_date <= now(), false)";

/** SQL: the guest of form `f` does not need the invitation `n` anymore. */
export const NEEDS_NO_INVITATION = `(${IS_OVER} OR f.status <> 'SENT' OR ${IS_REPLACED})`;

/** SQL that audits the end of the emails that `rows` names. */
const auditEnded = (action: string, rows: string) =>
  auditBySystemSql(
    action,
    `SELECT coalesce(form_id, endpoint_id), correlation_id, jsonb_build_object('emailId', id::text) FROM ${rows}`,
  );

export const auditExpired = (rows: string) => auditEnded("email.expired", rows);

/** Emails to owners of endpoints wait for so long, with or without a mailer. */
const MAX_WAIT = "interval '3 days'";

/** Emails per statement. */
const BATCH = 500;

// Reads a state in the order of the index emails_unsent_idx, and locks only the rows that expire. Those that a worker is claiming
// are left to it: it checks again before it sends.
const EXPIRE = `
  WITH examined AS MATERIALIZED (
    SELECT id, created_at FROM emails
    WHERE state = $1::"EmailState" AND state <> 'sent' AND (created_at, id) > ($2::timestamptz, $3::bigint)
    ORDER BY created_at, id LIMIT ${BATCH}
  ), due AS MATERIALIZED (
    SELECT n.id
    FROM emails n LEFT JOIN forms f ON f.id = n.form_id
    WHERE n.id = ANY(ARRAY(SELECT id FROM examined)) AND n.state::text IN ('waiting', 'retrying', 'failed', 'bounced')
      AND CASE n.kind WHEN '${INVITATION}' THEN ${NEEDS_NO_INVITATION}
        WHEN '${ENDPOINT_DISABLED}' THEN n.created_at < now() - ${MAX_WAIT} END
    FOR UPDATE OF n SKIP LOCKED
  ), expired AS (
    UPDATE emails SET state = CASE state::text WHEN 'bounced' THEN 'dismissed' ELSE 'expired' END::"EmailState",
      next_attempt_at = NULL, ended_at = coalesce(ended_at, now())
    WHERE id = ANY(ARRAY(SELECT id FROM due))
    RETURNING id, form_id, endpoint_id, correlation_id, state
  ), audited AS (
    ${auditExpired("expired WHERE state::text = 'expired'")}
  ), audited_bounced AS (
    ${auditEnded("email.dismissed", "expired WHERE state::text = 'dismissed'")}
  )
  SELECT created_at::text AS "createdAt", id::text, (SELECT count(*)::int FROM expired) AS expired
  FROM examined ORDER BY examined.created_at DESC, examined.id DESC LIMIT 1`;

/** The last email of a batch, and how many of the batch have expired. */
interface Batch {
  createdAt: string;
  id: string;
  expired: number;
}

/** Ends the emails that nobody needs anymore, in batches: those that wait, and those that failed or bounced, so that warnings end. */
export async function expireEmails(
  { db, counts }: Pick<Services, "db"> & { counts: ActivityCounts },
  log: Pick<Log, "info">,
  signal?: AbortSignal,
): Promise<void> {
  let emails = 0;
  for (const state of ["waiting", "retrying", "failed", "bounced"]) {
    const isWaiting = ["waiting", "retrying"].includes(state);
    for (let last: Batch | undefined = { createdAt: "-infinity", id: "0", expired: 0 }; last; ) {
      if (signal?.aborted) break;
      [last] = await db.query<Batch>("expire-emails", EXPIRE, [state, last.createdAt, last.id]);
      emails += last?.expired ?? 0;
      // The others were counted when they failed or were sent.
      if (isWaiting) counts.add("email.expired", last?.expired ?? 0);
    }
  }
  if (emails > 0) log.info({ emails }, "emails expired");
}

/** Whatever is sent is checked then. */
export const EMAIL_EXPIRY: Job = {
  everyMs: 300_000,
  retryMs: 5_000,
  run: expireEmails,
  onFailure: (err, log) => log[logLevelOf(err)]({ ...withAdvice(err) }, "cannot expire emails"),
};
