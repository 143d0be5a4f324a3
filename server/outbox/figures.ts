import { UNDELIVERED_EMAIL_STATES, type UndeliveredEmailState } from "../constants.js";
import type { Sql } from "../database/db.js";

/** A worker is stale if it has sent no heartbeat for this long. */
export const STALE_AFTER_SECONDS = 20;
/** A running worker claims what is due, and the rows of a stale worker, within this time. */
const OVERDUE_AFTER_SECONDS = 60;

const READ_EMAILS = `
  SELECT state, count(*)::int AS count,
    count(*) FILTER (WHERE next_attempt_at < now() - make_interval(secs => $1))::int AS overdue,
    count(*) FILTER (WHERE state = 'running' AND heartbeat_at < now() - make_interval(secs => $2))::int AS stale,
    coalesce(extract(epoch FROM now() - min(next_attempt_at)), 0)::float8 AS wait
  FROM emails WHERE state <> 'sent' GROUP BY state`;

interface Row {
  state: UndeliveredEmailState;
  count: number;
  overdue: number;
  stale: number;
  wait: number;
}

/** Figures about the emails that are not `sent`. */
export async function readEmailFigures(db: Sql) {
  const rows = await db.query<Row>("email-figures", READ_EMAILS, [OVERDUE_AFTER_SECONDS, STALE_AFTER_SECONDS]);
  const sum = (field: "overdue" | "stale") => rows.reduce((total, row) => total + row[field], 0);
  const countOf = (state: UndeliveredEmailState) => rows.find((row) => row.state === state)?.count ?? 0;
  return {
    counts: Object.fromEntries(UNDELIVERED_EMAIL_STATES.map((state) => [state, countOf(state)])) as Record<
      UndeliveredEmailState,
      number
    >,
    /** Due for so long that probably no worker is running. */
    overdue: sum("overdue"),
    /** Claimed by a worker that stopped sending heartbeats. */
    stale: sum("stale"),
    /** Seconds that the longest-waiting due email has waited; 0 if none is due. */
    longestWait: Math.max(0, ...rows.map(({ wait }) => wait)),
  };
}

// The deliveries of an endpoint that fails wait for its next attempt.
const READ_DELIVERIES = `
  SELECT count(*) FILTER (WHERE n.state <> 'running')::int AS waiting,
    count(*) FILTER (WHERE n.state = 'running')::int AS running,
    count(*) FILTER (WHERE is_late AND n.next_attempt_at < now() - make_interval(secs => $1))::int AS overdue,
    coalesce(extract(epoch FROM now() - min(n.next_attempt_at) FILTER (WHERE is_late)), 0)::float8 AS "longestWait",
    (SELECT count(*)::int FROM webhook_endpoints WHERE disabled_at IS NULL) AS endpoints,
    (SELECT count(*)::int FROM webhook_endpoints WHERE disabled_at IS NULL AND failing_since IS NOT NULL) AS failing,
    (SELECT count(*)::int FROM webhook_endpoints WHERE disabled_reason IN ('gone', 'failing')) AS disabled
  FROM webhook_deliveries n JOIN webhook_endpoints w ON w.id = n.endpoint_id,
    LATERAL (SELECT w.failing_since IS NULL AND w.disabled_at IS NULL) AS of_row (is_late)
  WHERE n.state IN ('waiting', 'retrying', 'running') AND n.state <> 'sent'`;

/** Figures about the webhook deliveries that have not ended, and about the endpoints. */
export interface DeliveryFigures {
  waiting: number;
  running: number;
  /** Due for so long that probably no worker is running; without those of failing endpoints. */
  overdue: number;
  /** Seconds that the longest-waiting due delivery has waited, without those of failing endpoints; 0 if none is due. */
  longestWait: number;
  /** Enabled ones. */
  endpoints: number;
  /** Enabled ones whose last attempt failed. */
  failing: number;
  /** Those that were disabled because they failed or were gone. */
  disabled: number;
}

export async function readDeliveryFigures(db: Sql): Promise<DeliveryFigures> {
  const [figures] = await db.query<DeliveryFigures>("delivery-figures", READ_DELIVERIES, [OVERDUE_AFTER_SECONDS]);
  if (!figures) throw new Error("an aggregate returned no row");
  return { ...figures, longestWait: Math.max(0, figures.longestWait) };
}
