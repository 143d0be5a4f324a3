import type { Sql } from "../db.js";
import { STALE_AFTER_SECONDS } from "./queue.js";

/** A running worker claims due notifications, and those of a stale worker, sooner than this. */
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
  /** Due for so long that probably no worker is running. */
  overdue: number;
  /** Claimed by a worker that stopped sending heartbeats. */
  stale: number;
  failed: number;
}

export async function readQueueHealth(db: Sql): Promise<QueueHealth> {
  const values = [OVERDUE_AFTER_SECONDS, STALE_AFTER_SECONDS];
  const [health] = await db.query<QueueHealth>("examine-notifications", EXAMINE, values);
  if (!health) throw new Error("the statement counted nothing");
  return health;
}
