import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../access/context.js";
import { classify } from "../database/failures.js";
import { withAdvice } from "../database/writes.js";
import { nextAttemptAfter, pauseUntil, stateType } from "./rows.js";
import type { OutboxTable } from "./states.js";

// Outcomes are recorded in batches: one statement and one commit for all attempts that ended while the batch before was recorded.
// So a slow disk makes batches larger instead of making attempts wait for each other.

/** How an attempt has ended. A channel may add fields. */
export interface Outcome {
  id: string;
  /** The row's next state, or `deleted`. `retrying` becomes `failed` if there is no time left for another attempt. */
  state: string;
  /** What is stored as the last error. */
  reason: string | null;
  /** The earliest time of the next attempt, from now on. */
  pauseSeconds?: number;
}

interface RecordSql {
  table: OutboxTable;
  /** SQL: no attempt is made after this time. */
  deadline: string;
  /** Further fields of the outcome, with their types. */
  fields?: Record<string, string>;
  /** Further assignments, over the outcome `p`. */
  set?: string;
  /** Further CTEs, over `recorded`. */
  also?: string;
  /** Further columns of the result. */
  result?: string;
}

/**
 * SQL that records the outcomes in $2 of attempts by the worker $1, and returns `states`, the number of rows by their new state.
 * An outcome has no effect if another worker has taken over, except `sent`: the message must not be sent again. Rows are locked in
 * the order of their ids. An attempt that was not made (`expired`, `out_of_scope`) does not count. States are compared as text, so
 * that the planner reads rows by id.
 */
export const recordSql = ({ table, deadline, fields = {}, set = "", also = "", result = "" }: RecordSql) => `
  WITH outcome AS (
    SELECT * FROM jsonb_to_recordset($2::jsonb) AS o (
      id bigint, state text, reason text, "pauseSeconds" int${Object.entries(fields)
        .map(([field, type]) => `, "${field}" ${type}`)
        .join("")})
  ), own AS MATERIALIZED (
    SELECT o.*, n.attempts, ${deadline} AS deadline
    FROM outcome o JOIN ${table} n ON n.id = o.id
    WHERE n.id = ANY(ARRAY(SELECT id FROM outcome))
      AND ((n.state::text = 'running' AND n.worker_id = $1) OR (o.state = 'sent' AND n.state::text NOT IN ('sent', 'bounced')))
    ORDER BY n.id FOR NO KEY UPDATE OF n
  ), planned AS MATERIALIZED (
    SELECT own.*, CASE WHEN own.state = 'retrying' THEN nullif(
      least(greatest(${nextAttemptAfter("own.attempts")}, ${pauseUntil('own."pauseSeconds"')}), own.deadline),
      own.deadline) END AS next
    FROM own
  ), recorded AS (
    UPDATE ${table} n
    SET state = CASE WHEN p.state = 'retrying' AND p.next IS NULL THEN 'failed' ELSE p.state END::${stateType(table)},
      attempts = n.attempts - (p.state IN ('expired', 'out_of_scope'))::int, crashes = 0, last_error = p.reason,
      next_attempt_at = p.next, ended_at = CASE WHEN p.next IS NULL THEN now() END${set}
    FROM planned p WHERE n.id = p.id AND p.state <> 'deleted'
    RETURNING n.*
  ), deleted AS (
    DELETE FROM ${table} n USING planned p WHERE n.id = p.id AND p.state = 'deleted'
  )${also}
  SELECT coalesce((SELECT jsonb_object_agg(state, count) FROM (
    SELECT state, count(*) FROM recorded GROUP BY 1) AS by_state), '{}') AS states${result}`;

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5_000;

const UNRECORDED = "the outcome could not be recorded";

interface Options<Ending extends Outcome> {
  channel: string;
  /** Records a batch in one statement. */
  record: (outcomes: Ending[]) => Promise<void>;
  log: Log;
  /** Aborts when the worker stops waiting for outcomes to be recorded. */
  signal: AbortSignal;
}

/** Records outcomes in batches. Returns the function that adds one, which resolves once it is recorded or given up. */
export function createRecorder<Ending extends Outcome>(options: Options<Ending>): (outcome: Ending) => Promise<void> {
  let waiting: { outcome: Ending; resolve: () => void }[] = [];
  let isRecording = false;
  const recordAll = async () => {
    isRecording = true;
    for (let batch = waiting; batch.length > 0; batch = waiting) {
      waiting = [];
      await recordBatch(
        batch.map(({ outcome }) => outcome),
        options,
      );
      for (const { resolve } of batch) resolve();
    }
    isRecording = false;
  };
  return (outcome) =>
    new Promise((resolve) => {
      waiting.push({ outcome, resolve });
      if (!isRecording) void recordAll();
    });
}

/** Retries during a database outage, because a message whose outcome is not recorded is sent again. */
async function recordBatch<Ending extends Outcome>(outcomes: Ending[], options: Options<Ending>): Promise<void> {
  const { channel, record, log, signal } = options;
  const facts = { channel, rows: outcomes.length };
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    try {
      return await record(outcomes);
    } catch (err) {
      if (classify(err) === "fault") return isolateFault(outcomes, err, options);
      if (signal.aborted) return log.error({ ...facts, ...withAdvice(err) }, "stopped before outcomes were recorded");
      if (pauseMs === FIRST_PAUSE_MS) log.error({ ...facts, ...withAdvice(err) }, "cannot record outcomes yet");
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  }
}

/** Records a batch that the database rejects in halves, until the outcome that it rejects is alone and loses its reason. */
async function isolateFault<Ending extends Outcome>(
  outcomes: Ending[],
  err: unknown,
  options: Options<Ending>,
): Promise<void> {
  const [first] = outcomes;
  if (first && outcomes.length === 1) {
    const { channel, log } = options;
    log.error({ channel, id: first.id, err }, "cannot record an outcome");
    // A message that was sent must not be sent again.
    const bare = { id: first.id, state: first.state === "retrying" ? "retrying" : "failed", reason: UNRECORDED };
    if (first.reason !== UNRECORDED) await recordBatch([{ ...bare } as Ending], options);
    return;
  }
  const middle = Math.ceil(outcomes.length / 2);
  await recordBatch(outcomes.slice(0, middle), options);
  await recordBatch(outcomes.slice(middle), options);
}
