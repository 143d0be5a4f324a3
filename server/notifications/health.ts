import type { Sql } from "../db.js";
import { STALE_AFTER_SECONDS } from "./queue.js";

/** Longer than a running worker leaves a notification that is due, or that a stale worker held. */
const OVERDUE_AFTER_SECONDS = 60;

const EXAMINE = `
  SELECT count(*) FILTER (WHERE state IN ('waiting', 'retrying'))::int AS waiting,
    count(*) FILTER (WHERE state IN ('waiting', 'retrying')
      AND next_attempt_at < now() - make_interval(secs => $1))::int AS overdue,
    count(*) FILTER (WHERE state = 'running' AND heartbeat_at < now() - make_interval(secs => $2))::int AS stale,
    count(*) FILTER (WHERE state = 'failed')::int AS failed
  FROM notifications WHERE state <> 'sent'`;

export interface QueueHealth {
  waiting: number;
  /** Due for so long that no worker can be running. */
  overdue: number;
  /** Being sent by a worker that no longer sends heartbeats. */
  stale: number;
  failed: number;
}

export async function readQueueHealth(db: Sql): Promise<QueueHealth> {
  const values = [OVERDUE_AFTER_SECONDS, STALE_AFTER_SECONDS];
  const [health] = await db.query<QueueHealth>("examine-notifications", EXAMINE, values);
  if (!health) throw new Error("the statement counted nothing");
  return health;
}
