import type { OutboxTable } from "./states.js";

// Which rows a worker sends next. Tenants take turns: those with the least in flight come first, and of these the one that was
// served longest ago. So a tenant waits for at most one attempt of each other tenant that has something due, however much waits.
// Each process keeps its own order of turns, because a shared one would be a row that every claim writes.

/** A row that this worker has claimed. */
export interface Claimed {
  id: string;
  /** The rows of a queue are sent in order. */
  queueId: string;
  /** Whose turn it took. A tenant may have several queues. */
  tenantId: string;
  /** Attempts with this one. */
  attempts: number;
  /** Fields of every log line about the row. */
  facts: object;
}

interface ClaimSql {
  table: OutboxTable;
  /** The column that names the queue of a row. */
  queue: string;
  /** A query of `queue_id`, `tenant_id`, `running` and `slots` (how many more it may have in flight) over `pending p`. */
  queues: string;
  /** Conditions and orders of the rows of a queue that are due: all of the first come before those of the second. */
  ranges: [condition: string, order: string][];
  maxPerTenant: number;
  /** Further assignments. */
  set?: string;
  /** A query over `claimed n`. */
  read: string;
}

/** A recursive CTE `pending` of the queues in which something waits, and a null. Reads one index entry per queue. */
export const pendingQueues = (table: OutboxTable, queue: string) => `
  pending AS (
    (SELECT n.${queue} AS queue_id FROM ${table} n WHERE n.next_attempt_at IS NOT NULL ORDER BY n.${queue} LIMIT 1)
    UNION ALL
    SELECT (SELECT n.${queue} FROM ${table} n
      WHERE n.next_attempt_at IS NOT NULL AND n.${queue} > p.queue_id ORDER BY n.${queue} LIMIT 1)
    FROM pending p WHERE p.queue_id IS NOT NULL
  )`;

/** SQL over `pending p`: what this process is sending of each queue. */
export const JOIN_BUSY_QUEUES =
  "LEFT JOIN unnest($3::uuid[], $4::int[]) AS busy (queue_id, running) ON busy.queue_id = p.queue_id";

/**
 * SQL that claims at most $2 rows for the worker $1. $3 and $4 are the queues of what this process is sending, with how much; $5 and
 * $6 their tenants; $7 the tenants that were served last, the latest at the end.
 *
 * `pending` reads one index entry per queue, however many rows wait, and `candidate` at most as many rows as a queue has slots.
 * Only the rows that are chosen are locked, and those that another worker is claiming are skipped for the next of the same queue.
 */
export function claimSql({ table, queue, queues, ranges, maxPerTenant, set = "", read }: ClaimSql): string {
  // A range is a subquery, because Postgres rejects a lock directly in a UNION.
  const due = (columns: string, limit: string, lock = "") => {
    const rows = ranges.map(
      ([condition, order]) => `SELECT * FROM (
        SELECT n.id, n.is_urgent FROM ${table} n
        WHERE n.${queue} = q.queue_id AND n.next_attempt_at IS NOT NULL AND n.next_attempt_at <= now() AND ${condition}
        ORDER BY ${order} LIMIT ${limit} ${lock}) AS range`,
    );
    return `SELECT ${columns} FROM (${rows.join(" UNION ALL ")}) AS due LIMIT ${limit}`;
  };
  return `
  WITH RECURSIVE ${pendingQueues(table, queue)}, queue AS (
    ${queues}
  ), candidate AS (
    SELECT q.queue_id, q.tenant_id, due.is_urgent, q.running + due.place AS load
    FROM queue q CROSS JOIN LATERAL (${due("is_urgent, row_number() OVER () AS place", "greatest(0, q.slots)")}) AS due
  ), in_turn AS (
    SELECT c.queue_id, c.tenant_id, coalesce(busy.running, 0)
      + row_number() OVER (PARTITION BY c.tenant_id ORDER BY c.is_urgent DESC, c.load, random()) AS load
    FROM candidate c LEFT JOIN unnest($5::uuid[], $6::int[]) AS busy (tenant_id, running) ON busy.tenant_id = c.tenant_id
  ), chosen AS (
    SELECT t.queue_id
    FROM in_turn t LEFT JOIN unnest($7::uuid[]) WITH ORDINALITY AS served (tenant_id, turn) ON served.tenant_id = t.tenant_id
    WHERE t.load <= ${maxPerTenant}
    ORDER BY t.load, coalesce(served.turn, 0), random() LIMIT $2::int
  ), due AS MATERIALIZED (
    SELECT due.id
    FROM (SELECT c.queue_id, count(*) AS places FROM chosen c GROUP BY 1) AS q
      CROSS JOIN LATERAL (${due("id", "q.places", "FOR UPDATE SKIP LOCKED")}) AS due
  ), claimed AS (
    UPDATE ${table} n
    SET state = 'running', attempts = attempts + 1, worker_id = $1, heartbeat_at = now(), next_attempt_at = NULL${set}
    WHERE n.id = ANY(ARRAY(SELECT id FROM due))
    RETURNING n.*
  )
  ${read}`;
}

/** More tenants than this with something due get their turn by chance. */
const MAX_REMEMBERED_TENANTS = 1_000;

/** The tenants that a process has served last, the latest at the end. */
export class ServedTenants {
  readonly #ids = new Set<string>();

  add(id: string): void {
    this.#ids.delete(id);
    this.#ids.add(id);
    const [first] = this.#ids;
    if (first !== undefined && this.#ids.size > MAX_REMEMBERED_TENANTS) this.#ids.delete(first);
  }

  list(): string[] {
    return [...this.#ids];
  }
}

/** The parameters from $2 on of `claimSql`. */
export const claimValues = (free: number, inFlight: readonly Claimed[], served: ServedTenants) => [
  free,
  ...countValues(inFlight.map(({ queueId }) => queueId)),
  ...countValues(inFlight.map(({ tenantId }) => tenantId)),
  served.list(),
];

/** The distinct values, and how often each occurs. */
function countValues(values: string[]): [values: string[], counts: number[]] {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [[...counts.keys()], [...counts.values()]];
}
