import type { Call, InAppContext } from "../access/context.js";
import { audit } from "../audit-trail/audit.js";
import {
  DELIVERY_STATES,
  MAX_COUNTED_DELIVERIES,
  TEST_EVENT,
  UNSENT_DELIVERY_STATES,
  type UnsentDeliveryState,
} from "../constants.js";
import { invalid, notFound } from "../errors.js";
import { fromCursorId, type Page, readPage, toCursorId } from "../resources/paging.js";
import { NIL_UUID } from "../values.js";
import { getEndpoint } from "./endpoints.js";
import type * as schema from "./schema.js";
import type { Delivery } from "./schema.js";

const COLUMNS = `n.event_id AS id, n.endpoint_id AS "endpointId", n.event_type AS event, n.form_id AS "formId", n.state,
  n.attempts, n.response_status AS "responseStatus", n.response_body AS "responseBody", n.duration_ms AS "durationMs",
  n.last_error AS "lastError", n.next_attempt_at AS "nextAttemptAt", n.created_at AS "createdAt",
  CASE WHEN n.state = 'sent' THEN n.ended_at END AS "deliveredAt"`;

// Merges the newest of each state, as webhook_deliveries_endpoint_idx has them.
const NEWEST = `
  SELECT ${COLUMNS}
  FROM unnest($5::text[]::"DeliveryState"[]) AS s (state) CROSS JOIN LATERAL (
    SELECT * FROM webhook_deliveries n
    WHERE n.endpoint_id = $4::uuid AND n.state = s.state AND (n.created_at, n.event_id) < ($1::timestamptz, $2::uuid)
    ORDER BY n.created_at DESC, n.event_id DESC LIMIT $3::int) AS n
  ORDER BY n.created_at DESC, n.event_id DESC LIMIT $3::int`;

// By the row's id, because all endpoints have the same id and time of an event.
const newestOfAll = (condition: string) => `
  SELECT n.id::text AS "rowId", ${COLUMNS} FROM webhook_deliveries n
  WHERE ${condition} AND (n.created_at, n.id) < ($1::timestamptz, $2::bigint)
  ORDER BY n.created_at DESC, n.id DESC
  LIMIT $3::int`;

const NEWEST_IN_STATE = newestOfAll(`n.state <> 'sent' AND n.state = $4::"DeliveryState"`);
const NEWEST_OF_FORM = newestOfAll("n.form_id = $4::uuid AND n.state::text = coalesce($5, n.state::text)");

type Deliveries = Call<typeof schema.deliveriesInput, InAppContext>;

export function listDeliveries(call: Deliveries): Promise<Page<Delivery>> {
  const { endpointId, state } = call.input;
  return endpointId === undefined ? listOfAllEndpoints(call) : listOfEndpoint(call, endpointId, state);
}

async function listOfEndpoint({ ctx, input }: Deliveries, endpointId: string, state?: string): Promise<Page<Delivery>> {
  await getEndpoint({ ctx, input: { id: endpointId } });
  const states = state ? [state] : [...DELIVERY_STATES];
  return readPage(ctx, input, {
    identity: { list: "deliveries", filters: { endpointId, state } },
    order: "newest first",
    read: (page) => ctx.services.db.query<Delivery>("newest-deliveries", NEWEST, [...page, endpointId, states]),
    project: (row) => row,
  });
}

function listOfAllEndpoints({ ctx, input }: Deliveries): Promise<Page<Delivery>> {
  assertOperator(ctx);
  const { state, formId } = input;
  const { db } = ctx.services;
  return readPage(ctx, input, {
    identity: { list: "deliveries", filters: { state, formId } },
    order: "newest first",
    async read([createdAt, id, take]) {
      const page = [createdAt, fromCursorId(id), take];
      const rows = await (formId === undefined
        ? db.query<Delivery & { rowId: string }>("newest-deliveries-in-state", NEWEST_IN_STATE, [...page, state])
        : db.query<Delivery & { rowId: string }>("newest-deliveries-of-form", NEWEST_OF_FORM, [
            ...page,
            formId,
            state ?? null,
          ]));
      return rows.map((row) => ({ ...row, id: toCursorId(row.rowId), eventId: row.id }));
    },
    project: ({ rowId: _rowId, eventId, ...row }) => ({ ...row, id: eventId }),
  });
}

// The order makes the planner read the index, from which nothing else is needed: it may expect rows of a state that has none.
const countIn = (condition: string, order: string) => `
  SELECT s.state, (
    SELECT count(*)::int FROM (
      SELECT FROM webhook_deliveries n WHERE ${condition} AND n.state = s.state
      ORDER BY ${order} LIMIT ${MAX_COUNTED_DELIVERIES}) AS found) AS count
  FROM unnest($1::text[]::"DeliveryState"[]) AS s (state)`;

const COUNT_OF_ENDPOINT = countIn("n.endpoint_id = $2::uuid", "n.created_at, n.event_id");
const COUNT = countIn("n.state <> 'sent'", "n.created_at, n.id");

/** How many deliveries there are in each state other than `sent`, up to `MAX_COUNTED_DELIVERIES`. */
export async function countDeliveries({ ctx, input: { endpointId } }: Call<typeof schema.countInput, InAppContext>) {
  const { db } = ctx.services;
  type Row = { state: UnsentDeliveryState; count: number };
  if (endpointId === undefined) assertOperator(ctx);
  else await getEndpoint({ ctx, input: { id: endpointId } });
  const rows = await (endpointId === undefined
    ? db.query<Row>("count-deliveries", COUNT, [UNSENT_DELIVERY_STATES])
    : db.query<Row>("count-deliveries-of-endpoint", COUNT_OF_ENDPOINT, [UNSENT_DELIVERY_STATES, endpointId]));
  return Object.fromEntries(rows.map(({ state, count }) => [state, count])) as Record<UnsentDeliveryState, number>;
}

/** Only the operator sees the deliveries of all endpoints. */
function assertOperator({ principal }: InAppContext): void {
  if (principal.kind !== "operator") throw invalid([{ field: "endpointId", issue: "is required" }]);
}

// Before the backlog: somebody waits for it.
const TEST = `
  INSERT INTO webhook_deliveries AS n (endpoint_id, event_id, event_type, is_urgent, correlation_id)
  VALUES ($1::uuid, gen_random_uuid(), '${TEST_EVENT}', true, $2::uuid)
  RETURNING ${COLUMNS}`;

export async function testEndpoint({
  ctx,
  input: { id },
}: Call<typeof schema.getInput, InAppContext>): Promise<Delivery> {
  const { enabled } = await getEndpoint({ ctx, input: { id } });
  if (!enabled) throw invalid([{ field: "id", issue: "the endpoint is disabled: enable it first" }]);
  await endPause(ctx, id);
  const [added] = await ctx.services.db.query<Delivery>("test-endpoint", TEST, [id, ctx.correlationId]);
  if (!added) throw notFound();
  return added;
}

const END_PAUSE = "UPDATE webhook_endpoints SET paused_until = now() WHERE id = $1::uuid AND paused_until > now()";

/** Lets deliveries be sent to an endpoint that fails without waiting for the end of its pause. */
const endPause = ({ services }: InAppContext, id: string) => services.db.query("end-endpoint-pause", END_PAUSE, [id]);

/** Deliveries per transaction. */
const BATCH = 1_000;

// From the position ($2, $3) on, merged as in `NEWEST`.
const FIND_BATCH = `
  SELECT b.id::text AS "rowId", b.created_at AS "createdAt", b.event_id::text AS id
  FROM unnest($5::text[]::"DeliveryState"[]) AS s (state) CROSS JOIN LATERAL (
    SELECT n.id, n.created_at, n.event_id FROM webhook_deliveries n
    WHERE n.endpoint_id = $1::uuid AND n.state = s.state AND (n.created_at, n.event_id) > ($2::timestamptz, $3::uuid)
      AND n.created_at < coalesce($4::timestamptz, 'infinity') AND ($6::uuid IS NULL OR n.event_id = $6::uuid)
    ORDER BY n.created_at, n.event_id LIMIT ${BATCH}) AS b
  ORDER BY b.created_at, b.event_id LIMIT ${BATCH}`;

// Leaves alone what is being sent, and what another call sends again.
const LOCK_BATCH = `
  SELECT n.id::text FROM webhook_deliveries n
  WHERE n.id = ANY($1::bigint[]) AND n.state::text = ANY($2::text[])
  ORDER BY n.created_at, n.event_id
  FOR NO KEY UPDATE`;

const REDELIVER = `
  UPDATE webhook_deliveries
  SET state = 'waiting', attempts = 0, crashes = 0, next_attempt_at = now(), queued_at = now(), ended_at = NULL, is_urgent = $2
  WHERE id = ANY($1::bigint[])`;

const FAILED = ["failed", "expired", "retrying"];
const ENDED_OR_RETRYING = [...FAILED, "sent", "out_of_scope"];

interface Position {
  rowId: string;
  createdAt: string;
  id: string;
}

/**
 * Sends deliveries again, now and with the same `webhook-id`. Those that wait for their first attempt or are being sent are not
 * changed. After a failure the deliveries of some batches are sent again.
 */
export async function redeliver({ ctx, input }: Call<typeof schema.redeliverInput, InAppContext>) {
  const { endpointId, id = null, failed, since, until } = input;
  const { enabled } = await getEndpoint({ ctx, input: { id: endpointId } });
  if (!enabled) throw invalid([{ field: "endpointId", issue: "the endpoint is disabled: enable it first" }]);
  await endPause(ctx, endpointId);
  const { db } = ctx.services;
  const states = failed ? FAILED : ENDED_OR_RETRYING;
  const findAfter = (after: Omit<Position, "rowId">) => {
    const values = [endpointId, after.createdAt, after.id, until?.toISOString() ?? null, states, id];
    return db.query<Position>("find-deliveries", FIND_BATCH, values);
  };
  const redeliverBatch = (batch: Position[]) =>
    db.sqlTransaction(async (tx) => {
      const rowIds = batch.map(({ rowId }) => rowId);
      const rows = await tx.query<{ id: string }>("lock-deliveries", LOCK_BATCH, [rowIds, states]);
      if (rows.length === 0) return 0;
      // One that somebody asks for goes before the backlog.
      await tx.query("redeliver", REDELIVER, [rows.map((row) => row.id), id !== null]);
      await audit(tx, ctx, "webhook.redelivered", endpointId, { deliveries: rows.length });
      return rows.length;
    });
  let redelivered = 0;
  let last: Omit<Position, "rowId"> | undefined = { createdAt: since?.toISOString() ?? "-infinity", id: NIL_UUID };
  while (last) {
    const batch: Position[] = await findAfter(last);
    redelivered += await redeliverBatch(batch);
    last = batch.at(-1);
  }
  if (id !== null && redelivered === 0)
    throw invalid([{ field: "id", issue: "the endpoint has no delivery with this id that has ended or is retried" }]);
  return { redelivered };
}
