import type { Log } from "../access/context.js";
import { auditBySystemSql } from "../audit-trail/audit.js";
import type { Sql } from "../database/db.js";
import type { ActivityCounts } from "../outbox/activity.js";
import { ENDPOINT_DISABLED } from "../outbox/enqueue.js";
import { type Outcome, recordSql } from "../outbox/record.js";
import { pauseUntil } from "../outbox/rows.js";
import { MAX_WAIT } from "./expiry.js";

const DISABLE_AFTER = "interval '3 days'";
/** An endpoint that fails gets its next delivery after the pause of this one, at most after this time, with jitter of 20%. */
const MAX_ENDPOINT_PAUSE_SECONDS = 60;
/** Longer than any pause. Failures that are further apart are not taken for one outage. */
const MAX_GAP = "interval '12 hours'";

/** What an attempt says about its endpoint. */
interface Verdict {
  id: string;
  /** Of the endpoint, when the attempt began. */
  revision: number;
  attempts: number;
  correlationId: string;
  verdict: "accepts" | "fails" | "gone";
}

export interface DeliveryOutcome extends Outcome {
  status?: number;
  /** Of a failure. */
  body?: string;
  /** Whether the form had the guest's address when the attempt began. */
  hadAddress?: boolean;
  durationMs?: number | null;
  endpoint?: Verdict;
}

// If the guest's address was erased during the attempt, what was answered to it is not kept.
//
// The last outcome of an endpoint decides about it, unless it answered 410. An outcome says nothing about an endpoint whose URL was
// changed or that was enabled meanwhile. Endpoints that somebody else is changing are left out, so that nothing waits for them: the
// next outcome follows.
const RECORD = recordSql({
  table: "webhook_deliveries",
  deadline: `n.queued_at + ${MAX_WAIT}`,
  fields: { status: "int", body: "text", hadAddress: "boolean", durationMs: "int" },
  set: `, response_status = p.status, duration_ms = p."durationMs",
      response_body = CASE WHEN p.body IS NOT NULL AND (NOT p."hadAddress" OR EXISTS (
        SELECT FROM forms f WHERE f.id = n.form_id AND f.guest_email IS NOT NULL)) THEN p.body END`,
  also: `, judged AS (
    SELECT w.id, v.attempts, v.verdict, v."pauseSeconds", v."correlationId",
      CASE WHEN w.paused_until > now() - ${MAX_GAP} THEN w.failing_since END AS since
    FROM jsonb_to_recordset($3::jsonb) AS v (id uuid, revision int, attempts int, verdict text, "pauseSeconds" int, "correlationId" uuid)
      JOIN webhook_endpoints w ON w.id = v.id
    WHERE w.id = ANY(ARRAY(SELECT (v ->> 'id')::uuid FROM jsonb_array_elements($3::jsonb) AS v))
      AND w.disabled_at IS NULL AND w.revision = v.revision AND (v.verdict <> 'accepts' OR w.failing_since IS NOT NULL)
    ORDER BY w.id FOR NO KEY UPDATE OF w SKIP LOCKED
  ), accepting AS (
    UPDATE webhook_endpoints w SET failing_since = NULL, paused_until = NULL
    FROM judged j WHERE w.id = j.id AND j.verdict = 'accepts'
  ), failing AS (
    UPDATE webhook_endpoints w
    SET failing_since = coalesce(j.since, now()),
      paused_until = greatest(
        now() + interval '1 second' * least(exp(least(j.attempts, 10)), ${MAX_ENDPOINT_PAUSE_SECONDS}) * (0.8 + 0.2 * random()),
        ${pauseUntil('j."pauseSeconds"')}),
      (disabled_at, disabled_reason) = (SELECT now(), CASE j.verdict WHEN 'gone' THEN 'gone' ELSE 'failing' END
        WHERE j.verdict = 'gone' OR j.since < now() - ${DISABLE_AFTER})
    FROM judged j WHERE w.id = j.id AND j.verdict <> 'accepts'
    RETURNING w.id, w.user_id, w.disabled_reason, j."correlationId", j.since
  ), disabled AS (
    SELECT * FROM failing WHERE disabled_reason IS NOT NULL
  ), notified AS (
    INSERT INTO emails (kind, endpoint_id, tenant_id, check_in_date, correlation_id)
    SELECT '${ENDPOINT_DISABLED}', id, user_id, now(), "correlationId" FROM disabled WHERE user_id IS NOT NULL
  ), audited AS (
    ${auditBySystemSql(
      "webhook.disabled",
      `SELECT id, "correlationId", jsonb_build_object('reason', disabled_reason) FROM disabled`,
    )}
  )`,
  result: `, (SELECT jsonb_agg(jsonb_build_object('id', id, 'isNew', since IS NULL, 'disabledReason', disabled_reason))
      FROM failing) AS failing`,
});

interface Recorded {
  states: Partial<Record<"sent" | "retrying" | "failed" | "out_of_scope", number>>;
  failing: { id: string; isNew: boolean; disabledReason: string | null }[] | null;
}

/** Records outcomes of attempts, and what they say about the endpoints. */
export async function recordDeliveries(
  db: Sql,
  workerId: string,
  outcomes: DeliveryOutcome[],
  { counts, log }: { counts: ActivityCounts; log: Log },
): Promise<void> {
  const verdicts = new Map(
    outcomes
      .flatMap(({ endpoint, pauseSeconds = 0, reason }) => (endpoint ? [{ ...endpoint, pauseSeconds, reason }] : []))
      // The last one decides. Neither an outcome of an older URL nor a later one of this URL hides a 410.
      .sort((a, b) => a.revision - b.revision || Number(a.verdict === "gone") - Number(b.verdict === "gone"))
      .map((verdict) => [verdict.id, verdict]),
  );
  const values = [workerId, JSON.stringify(outcomes), JSON.stringify([...verdicts.values()])];
  const [recorded] = await db.query<Recorded>("record-deliveries", RECORD, values);
  const states = Object.entries(recorded?.states ?? {}) as [keyof Recorded["states"], number][];
  for (const [state, count] of states) counts.add(`delivery.${state}`, count);
  for (const { id, isNew, disabledReason } of recorded?.failing ?? []) {
    if (disabledReason) log.warn({ endpointId: id, reason: disabledReason }, "webhook endpoint disabled");
    else if (isNew) log.info({ endpointId: id, reason: verdicts.get(id)?.reason }, "webhook endpoint fails");
  }
}
