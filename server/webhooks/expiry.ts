import type { Log, Services } from "../access/context.js";
import type { Sql } from "../database/db.js";
import { logLevelOf } from "../database/failures.js";
import { withAdvice } from "../database/writes.js";
import type { ActivityCounts } from "../outbox/activity.js";
import { pendingQueues } from "../outbox/claim.js";
import type { Job } from "../outbox/jobs.js";

// Every delivery that waits ends. What one endpoint has waiting is read by statements of its own, so that it cannot keep the
// deliveries of others from ending. Several workers may do this at the same time: they end the same ones.

/** SQL: a delivery waits for so long after its event, or after it was redelivered. */
export const MAX_WAIT = "interval '3 days'";
/** Deliveries that may wait for an endpoint. */
const MAX_BACKLOG = 50_000;

/** The waiting deliveries of the endpoint $1. */
const WAITING = "endpoint_id = $1::uuid AND next_attempt_at IS NOT NULL";

/** Deliveries per statement: few enough for a slow disk. */
const BATCH = 2_000;

// Leaves out those that a worker is claiming.
const end = (state: "failed" | "expired", reason: string, due: string) => `
  UPDATE webhook_deliveries
  SET state = '${state}', last_error = coalesce(${reason}, last_error), next_attempt_at = NULL, ended_at = now()
  WHERE id = ANY(ARRAY(SELECT id FROM webhook_deliveries WHERE ${due} LIMIT ${BATCH} FOR NO KEY UPDATE SKIP LOCKED))
  RETURNING true`;

/** Runs a statement that ends at most BATCH deliveries until none is left. Returns their number. */
async function repeatBatch(
  sql: Sql,
  name: string,
  text: string,
  values: (string | number)[],
  signal?: AbortSignal,
): Promise<number> {
  let total = 0;
  for (let rows = BATCH; rows === BATCH && !signal?.aborted; total += rows) {
    rows = (await sql.query(name, text, values)).length;
  }
  return total;
}

const IS_DISABLED = "EXISTS (SELECT FROM webhook_endpoints w WHERE w.id = $1::uuid AND w.disabled_at IS NOT NULL)";

const END_BACKLOG = end("failed", "'the endpoint is disabled'", `${WAITING} AND ${IS_DISABLED}`);

/** Ends the deliveries that wait for an endpoint that was disabled, unless it is enabled again. */
export const endBacklog = (sql: Sql, endpointId: string, signal?: AbortSignal) =>
  repeatBatch(sql, "end-backlog", END_BACKLOG, [endpointId], signal);

const DELETE_ORPHANS = `
  DELETE FROM webhook_deliveries
  WHERE id = ANY(ARRAY(SELECT id FROM webhook_deliveries WHERE ${WAITING} LIMIT ${BATCH} FOR UPDATE SKIP LOCKED))
  RETURNING true`;

// The last one that is too many. A number of them, instead, would be ended by each of two workers that count at the same time.
const FIND_EXCESS = `
  SELECT queued_at::text AS "queuedAt", id::text FROM webhook_deliveries WHERE ${WAITING}
  ORDER BY webhook_deliveries.queued_at DESC, webhook_deliveries.id DESC OFFSET ${MAX_BACKLOG} LIMIT 1`;

const EXPIRE_BACKLOG = end(
  "expired",
  `'more than ${MAX_BACKLOG} newer deliveries waited for the endpoint'`,
  `${WAITING} AND (queued_at, id) <= ($2::timestamptz, $3::bigint)`,
);

const FIND_PENDING = `
  WITH RECURSIVE ${pendingQueues("webhook_deliveries", "endpoint_id")}
  SELECT p.queue_id::text AS id, w.id IS NULL AS "isDeleted", w.disabled_at IS NOT NULL AS "isDisabled"
  FROM pending p LEFT JOIN LATERAL (SELECT * FROM webhook_endpoints WHERE id = p.queue_id LIMIT 1) w ON true
  WHERE p.queue_id IS NOT NULL`;

// In the order of the index webhook_deliveries_unsent_idx. Redelivered ones are younger than their event.
const EXPIRE = end(
  "expired",
  "NULL",
  `state = $1::"DeliveryState" AND state <> 'sent' AND created_at < now() - ${MAX_WAIT} AND queued_at < now() - ${MAX_WAIT}
   ORDER BY created_at, id`,
);

interface Pending {
  id: string;
  isDeleted: boolean;
  isDisabled: boolean;
}

/**
 * Ends the waiting deliveries of disabled and deleted endpoints, those that are too many, and those that have waited too long. What
 * fails for an endpoint does not keep it from the others; then rejects at the end.
 */
export async function expireDeliveries(
  { db, counts }: Pick<Services, "db"> & { counts: ActivityCounts },
  log: Pick<Log, "info">,
  signal?: AbortSignal,
): Promise<void> {
  const expire = async (name: string, text: string, values: string[], facts: object) => {
    const deliveries = await repeatBatch(db, name, text, values, signal);
    counts.add("delivery.expired", deliveries);
    if (deliveries > 0) log.info({ ...facts, deliveries }, "webhook deliveries expired");
  };
  const endWaiting = async ({ id, isDeleted, isDisabled }: Pending) => {
    if (isDeleted) return repeatBatch(db, "delete-orphans", DELETE_ORPHANS, [id], signal);
    if (isDisabled) return endBacklog(db, id, signal);
    const [excess] = await db.query<{ queuedAt: string; id: string }>("find-excess", FIND_EXCESS, [id]);
    if (!excess) return;
    const facts = { endpointId: id, reason: "too many newer ones wait" };
    return expire("expire-backlog", EXPIRE_BACKLOG, [id, excess.queuedAt, excess.id], facts);
  };
  const failures: unknown[] = [];
  const tryTo = (work: Promise<unknown>) => work.catch((error) => void failures.push(error));
  for (const state of ["waiting", "retrying"])
    await tryTo(expire("expire-deliveries", EXPIRE, [state], { reason: "they have waited too long" }));
  for (const endpoint of await db.query<Pending>("find-pending-endpoints", FIND_PENDING, []))
    if (!signal?.aborted) await tryTo(endWaiting(endpoint));
  if (failures.length > 0) throw failures[0];
}

export const DELIVERY_EXPIRY: Job = {
  everyMs: 10_000,
  retryMs: 5_000,
  run: expireDeliveries,
  onFailure: (err, log) => log[logLevelOf(err)]({ ...withAdvice(err) }, "cannot expire deliveries"),
};
