import type { Log, Services } from "./access/context.js";
import { AUDIT_RETENTION } from "./audit-trail/retention.js";
import { withAdvice } from "./database/writes.js";
import { EMAIL_EXPIRY } from "./emails/expiry.js";
import { EMAIL_RETENTION } from "./emails/retention.js";
import { eraseDueEmails } from "./erasure/erase.js";
import { FORM_RETENTION, IDEMPOTENCY_KEY_RETENTION, UNDATED_FORM_RETENTION } from "./forms/retention.js";
import type { Job } from "./outbox/jobs.js";
import { deletePast } from "./outbox/retention.js";
import { DELIVERY_EXPIRY } from "./webhooks/expiry.js";
import { SENT_RETENTION, UNSENT_RETENTION } from "./webhooks/retention.js";

// Forms come last: what is past its own retention is not deleted with them.
const RETENTIONS = [
  AUDIT_RETENTION,
  EMAIL_RETENTION,
  SENT_RETENTION,
  UNSENT_RETENTION,
  IDEMPOTENCY_KEY_RETENTION,
  FORM_RETENTION,
  UNDATED_FORM_RETENTION,
];

/** How long a run deletes rows of one kind. The next run goes on. So a backlog keeps no address that is due. */
const LONGEST_MS = 600_000;

/**
 * Erases addresses that are due, and deletes rows past their retention. What fails for one kind does not keep it from the others; then
 * rejects at the end.
 */
export async function deleteOldRows(
  services: Services,
  log: Pick<Log, "info">,
  signal: AbortSignal,
  longestMs = LONGEST_MS,
): Promise<void> {
  const failures: unknown[] = [];
  const tryTo = (work: Promise<void>) => work.catch((error) => void failures.push(error));
  if (services.settings.RETENTION_DAYS > 0) await tryTo(eraseDueEmails(services, log, signal));
  for (const retention of RETENTIONS) {
    const stop = AbortSignal.any([signal, AbortSignal.timeout(longestMs)]);
    await tryTo(deletePast(retention, services, log, stop));
  }
  if (failures.length > 0) throw failures[0];
}

const RETENTION: Job = {
  everyMs: 3_600_000,
  retryMs: 60_000,
  async run(deps, log, signal) {
    await deleteOldRows(deps, log, signal);
    deps.counts.add("retention.run");
    await deps.counts.flush(deps.db);
  },
  onFailure: (err, log) => log.error(withAdvice(err), "the retention failed"),
};

/** What every worker does at intervals. */
export const JOBS: readonly Job[] = [RETENTION, EMAIL_EXPIRY, DELIVERY_EXPIRY];
