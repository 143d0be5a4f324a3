import type { Log, Services } from "../access/context.js";
import type { Sql } from "../database/db.js";
import type { ActivityCounts } from "../outbox/activity.js";

// Every delivery that waits ends, in batches that a statement has time for.

/** SQL: a delivery waits for so long after its event, or after it was redelivered. */
export const MAX_WAIT = "interval '3 days'";
/** Deliveries that may wait for an endpoint. */
const MAX_BACKLOG = 50_000;

/** The waiting deliveries of the endpoint $1, without those that a worker is claiming. */
const WAITING = "endpoint_id = $1::uuid AND next_attempt_at IS NOT NULL";

/** Deliveries per statement: a whole backlog in five. */
const BATCH = 10_000;

const end = (state: "failed" | "expired", reason: string, due: string, limit: string) => `
  UPDATE webhook_deliveries
  SET state = '${state}', last_error = coalesce(${reason}, last_error), next_attempt_at = NULL, ended_at = now()
  WHERE id = ANY(ARRAY(SELECT id FROM webhook_deliveries WHERE ${due} LIMIT ${limit} FOR NO KEY UPDATE SKIP LOCKED))
  RETURNING true`;

/** Runs a statement that ends at most BATCH deliveries until none is left. Returns their number. */
async function repeatBatch(
  sql: Sql,
  name: string,
  text: string,
  values: string[],
  signal?: AbortSignal,
): Promise<number> {
  let total = 0;
  for (let rows = BATCH; rows === BATCH && !signal?.aborted; total += rows) {
    rows = (await sql.query(name, text, values)).length;
  }
  return total;
}

const IS_DISABLED = "EXISTS (SELECT FROM webhook_endpoints w WHERE w.id = $1::uuid AND w.disabled_at IS NOT NULL)";

const END_BACKLOG = end("failed", "'the endpoint is disabled'", `${WAITING} AND ${IS_DISABLED}`, `${BATCH}`);

/** Ends the deliveries that wait for an endpoint that was disabled, unless it is enabled again. */
export const endBacklog = (sql: Sql, endpointId: string, signal?: AbortSignal) =>
  repeatBatch(sql, "end-backlog", END_BACKLOG, [endpointId], signal);

const DELETE_ORPHANS = `
  DELETE FROM webhook_deliveries
  WHERE id = ANY(ARRAY(SELECT id FROM webhook_deliveries WHERE ${WAITING} LIMIT ${BATCH} FOR UPDATE SKIP LOCKED))
  RETURNING true`;

// Those that have waited longest.
const EXPIRE_BACKLOG = end(
  "expired",
  `'more than ${MAX_BACKLOG} newer deliveries waited for the endpoint'`,
  `${WAITING} ORDER BY queued_at, id`,
  `least(${BATCH}, greatest(0, (SELECT count(*) FROM webhook_deliveries WHERE ${WAITING}) - ${MAX_BACKLOG}))`,
);

// The endpoints whose backlog must end. Reads at most one index entry more per endpoint than may wait for it.
const FIND_BACKLOGS = `
  WITH RECURSIVE pending AS (
    (SELECT endpoint_id FROM webhook_deliveries WHERE next_attempt_at IS NOT NULL ORDER BY endpoint_id LIMIT 1)
    UNION ALL
    SELECT (SELECT n.endpoint_id FROM webhook_deliveries n
      WHERE n.next_attempt_at IS NOT NULL AND n.endpoint_id > p.endpoint_id ORDER BY n.endpoint_id LIMIT 1)
    FROM pending p WHERE p.endpoint_id IS NOT NULL
  )
  SELECT p.endpoint_id::text AS id, w.id IS NULL AS "isDeleted", w.disabled_at IS NOT NULL AS "isDisabled"
  FROM pending p LEFT JOIN LATERAL (SELECT * FROM webhook_endpoints WHERE id = p.endpoint_id LIMIT 1) w ON true
  WHERE p.endpoint_id IS NOT NULL AND (w.id IS NULL OR w.disabled_at IS NOT NULL OR EXISTS (
    SELECT FROM webhook_deliveries n WHERE n.endpoint_id = p.endpoint_id AND n.next_attempt_at IS NOT NULL OFFSET ${MAX_BACKLOG}))`;

// In the order of the index webhook_deliveries_unsent_idx. Redelivered ones are younger than their event.
const EXPIRE = end(
  "expired",
  "NULL",
  `state = $1::"DeliveryState" AND state <> 'sent' AND created_at < now() - ${MAX_WAIT} AND queued_at < now() - ${MAX_WAIT}
   ORDER BY created_at, id`,
  `${BATCH}`,
);

interface Backlog {
  id: string;
  isDeleted: boolean;
  isDisabled: boolean;
}

/** Ends the waiting deliveries of disabled and deleted endpoints, those that are too many, and those that have waited too long. */
export async function expireDeliveries(
  { db, counts }: Pick<Services, "db"> & { counts: ActivityCounts },
  log: Pick<Log, "info">,
  signal?: AbortSignal,
): Promise<void> {
  const expire = async (name: string, text: string, value: string, facts: object) => {
    const deliveries = await repeatBatch(db, name, text, [value], signal);
    counts.add("delivery.expired", deliveries);
    if (deliveries > 0) log.info({ ...facts, deliveries }, "webhook deliveries expired");
  };
  for (const state of ["waiting", "retrying"])
    await expire("expire-deliveries", EXPIRE, state, { reason: "they have waited too long" });
  for (const { id, isDeleted, isDisabled } of await db.query<Backlog>("find-backlogs", FIND_BACKLOGS, [])) {
    if (isDeleted) await repeatBatch(db, "delete-orphans", DELETE_ORPHANS, [id], signal);
    else if (isDisabled) await endBacklog(db, id, signal);
    else await expire("expire-backlog", EXPIRE_BACKLOG, id, { endpointId: id, reason: "too many newer ones wait" });
  }
}
