import { STATES, type State } from "../constants.js";
import type { Sql } from "../database/db.js";

/** A worker is stale if it has sent no heartbeat for this long. */
export const STALE_AFTER_SECONDS = 20;
/** A running worker claims due notifications, and those of a stale worker, within this time. */
const OVERDUE_AFTER_SECONDS = 60;

const READ = `
  SELECT state, count(*)::int AS count,
    count(*) FILTER (WHERE is_waiting AND next_attempt_at < now() - make_interval(secs => $1))::int AS overdue,
    count(*) FILTER (WHERE state = 'running' AND heartbeat_at < now() - make_interval(secs => $2))::int AS stale,
    coalesce(extract(epoch FROM now() - min(next_attempt_at) FILTER (WHERE is_waiting)), 0)::float8 AS wait
  FROM notifications, LATERAL (SELECT state IN ('waiting', 'retrying')) AS of_state (is_waiting)
  WHERE state <> 'sent' GROUP BY state`;

interface Row {
  state: State;
  count: number;
  overdue: number;
  stale: number;
  wait: number;
}

/** Figures about the unsent notifications. */
export async function readQueueFigures(db: Sql) {
  const rows = await db.query<Row>("queue-figures", READ, [OVERDUE_AFTER_SECONDS, STALE_AFTER_SECONDS]);
  const sum = (field: "overdue" | "stale") => rows.reduce((total, row) => total + row[field], 0);
  const countOf = (state: State) => rows.find((row) => row.state === state)?.count ?? 0;
  return {
    counts: Object.fromEntries(STATES.map((state) => [state, countOf(state)])) as Record<State, number>,
    /** Due for so long that probably no worker is running. */
    overdue: sum("overdue"),
    /** Claimed by a worker that stopped sending heartbeats. */
    stale: sum("stale"),
    /** Seconds that the longest-waiting due notification has waited; 0 if none is due. */
    longestWait: Math.max(0, ...rows.map(({ wait }) => wait)),
  };
}
