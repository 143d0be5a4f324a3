import type { Call, InAppContext } from "../access/context.js";
import { audit } from "../audit.js";
import { TEST_EVENT } from "../constants.js";
import { invalid, notFound } from "../errors.js";
import { DELIVERY } from "../outbox/events.js";
import { fromCursorId, type Page, readPage, toCursorId } from "../resources/paging.js";
import { NIL_UUID } from "../values.js";
import { getEndpoint } from "./endpoints.js";
import type * as schema from "./schema.js";
import type { Delivery } from "./schema.js";

const COLUMNS = `n.event_id AS id, n.endpoint_id AS "endpointId", n.event_type AS event, n.form_id AS "formId", n.state,
  n.attempts, n.response_status AS "responseStatus", n.response_body AS "responseBody", n.duration_ms AS "durationMs",
  n.last_error AS "lastError", n.next_attempt_at AS "nextAttemptAt", n.created_at AS "createdAt", n.sent_at AS "deliveredAt"`;

const NEWEST = `
  SELECT ${COLUMNS} FROM notifications n
  WHERE n.endpoint_id = $4::uuid AND n.event_id IS NOT NULL AND (n.created_at, n.event_id) < ($1::timestamptz, $2::uuid)
    AND n.state::text = coalesce($5, n.state::text)
  ORDER BY n.created_at DESC, n.event_id DESC
  LIMIT $3::int`;

// By the row's id, because all endpoints have the same id and time of an event.
const NEWEST_OF_ALL = `
  SELECT n.id::text AS "rowId", ${COLUMNS} FROM notifications n
  WHERE n.state <> 'sent' AND n.event_id IS NOT NULL AND n.state = $4::"NotificationState"
    AND (n.created_at, n.id) < ($1::timestamptz, $2::bigint)
  ORDER BY n.created_at DESC, n.id DESC
  LIMIT $3::int`;

export function listDeliveries(call: Call<typeof schema.deliveriesInput, InAppContext>): Promise<Page<Delivery>> {
  const { endpointId, state } = call.input;
  return endpointId === undefined ? listOfAllEndpoints(call, state) : listOfEndpoint(call, endpointId, state);
}

type Deliveries = Call<typeof schema.deliveriesInput, InAppContext>;

async function listOfEndpoint({ ctx, input }: Deliveries, endpointId: string, state?: string): Promise<Page<Delivery>> {
  await getEndpoint({ ctx, input: { id: endpointId } });
  return readPage(ctx, input, {
    identity: { list: "deliveries", filters: { endpointId, state } },
    order: "newest first",
    read: (page) => ctx.services.db.query<Delivery>("newest-deliveries", NEWEST, [...page, endpointId, state ?? null]),
    project: (row) => row,
  });
}

function listOfAllEndpoints({ ctx, input }: Deliveries, state?: string): Promise<Page<Delivery>> {
  if (ctx.principal.kind !== "operator") throw invalid([{ field: "endpointId", issue: "is required" }]);
  return readPage(ctx, input, {
    identity: { list: "deliveries", filters: { state } },
    order: "newest first",
    async read([createdAt, id, take]) {
      const values = [createdAt, fromCursorId(id), take, state];
      const rows = await ctx.services.db.query<Delivery & { rowId: string }>(
        "newest-deliveries-of-all",
        NEWEST_OF_ALL,
        values,
      );
      return rows.map((row) => ({ ...row, id: toCursorId(row.rowId), eventId: row.id }));
    },
    project: ({ rowId: _rowId, eventId, ...row }) => ({ ...row, id: eventId }),
  });
}

const TEST = `
  INSERT INTO notifications AS n (kind, endpoint_id, event_id, event_type, correlation_id)
  VALUES ('${DELIVERY}', $1::uuid, gen_random_uuid(), '${TEST_EVENT}', $2::uuid)
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

// In the order of the index, from the position ($2, $3) on. A delivery that is being sent is left alone.
const LOCK_BATCH = `
  SELECT n.id::text AS "rowId", n.created_at AS "createdAt", n.event_id::text AS id FROM notifications n
  WHERE n.endpoint_id = $1::uuid AND n.event_id IS NOT NULL AND (n.created_at, n.event_id) > ($2::timestamptz, $3::uuid)
    AND n.created_at < coalesce($4::timestamptz, 'infinity') AND n.state::text = ANY($5::text[])
    AND ($6::uuid IS NULL OR n.event_id = $6::uuid)
  ORDER BY n.created_at, n.event_id LIMIT ${BATCH}
  FOR NO KEY UPDATE`;

const REDELIVER = `
  UPDATE notifications SET state = 'waiting', attempts = 0, crashes = 0, next_attempt_at = now()
  WHERE id = ANY($1::bigint[])`;

const FAILED = ["failed", "retrying"];
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
  const filters = [until?.toISOString() ?? null, failed ? FAILED : ENDED_OR_RETRYING, id];
  const redeliverAfter = (after: Omit<Position, "rowId">) =>
    ctx.services.db.sqlTransaction(async (tx) => {
      const values = [endpointId, after.createdAt, after.id, ...filters];
      const rows = await tx.query<Position>("lock-deliveries", LOCK_BATCH, values);
      if (rows.length === 0) return rows;
      await tx.query("redeliver", REDELIVER, [rows.map(({ rowId }) => rowId)]);
      await audit(tx, ctx, "webhook.redelivered", endpointId, { deliveries: rows.length });
      return rows;
    });
  let redelivered = 0;
  let last: Omit<Position, "rowId"> | undefined = { createdAt: since?.toISOString() ?? "-infinity", id: NIL_UUID };
  while (last) {
    const rows: Position[] = await redeliverAfter(last);
    redelivered += rows.length;
    last = rows.length === BATCH ? rows.at(-1) : undefined;
  }
  if (id !== null && redelivered === 0)
    throw invalid([{ field: "id", issue: "the endpoint has no delivery with this id that has ended or is retried" }]);
  return { redelivered };
}
