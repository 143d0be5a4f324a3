import type { Call, InAppContext } from "../access/context.js";
import { audit } from "../audit.js";
import { TEST_EVENT } from "../constants.js";
import { invalid, notFound } from "../errors.js";
import { DELIVERY } from "../outbox/events.js";
import { type Page, readPage } from "../resources/paging.js";
import { NIL_UUID } from "../values.js";
import { getEndpoint } from "./endpoints.js";
import type * as schema from "./schema.js";
import type { Delivery } from "./schema.js";

const COLUMNS = `n.event_id AS id, n.endpoint_id AS "endpointId", n.event_type AS event, n.form_id AS "formId", n.state,
  n.attempts, n.response_status AS "responseStatus", n.response_body AS "responseBody", n.duration_ms AS "durationMs",
  n.last_error AS "lastError", n.next_attempt_at AS "nextAttemptAt", n.created_at AS "createdAt", n.sent_at AS "sentAt"`;

const NEWEST = `
  SELECT ${COLUMNS} FROM notifications n
  WHERE n.endpoint_id = $4::uuid AND n.event_id IS NOT NULL AND (n.created_at, n.event_id) < ($1::timestamptz, $2::uuid)
    AND n.state::text = coalesce($5, n.state::text)
  ORDER BY n.created_at DESC, n.event_id DESC
  LIMIT $3::int`;

export async function listDeliveries({
  ctx,
  input,
}: Call<typeof schema.deliveriesInput, InAppContext>): Promise<Page<Delivery>> {
  const { endpointId, state } = input;
  await getEndpoint({ ctx, input: { id: endpointId } });
  return readPage(ctx, input, {
    identity: { list: "deliveries", filters: { endpointId, state } },
    order: "newest first",
    read: (page) => ctx.services.db.query<Delivery>("newest-deliveries", NEWEST, [...page, endpointId, state ?? null]),
    project: (row) => row,
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
  const [added] = await ctx.services.db.query<Delivery>("test-endpoint", TEST, [id, ctx.correlationId]);
  if (!added) throw notFound();
  return added;
}

/** Deliveries per statement. */
const BATCH = 1_000;

// In the order of the index, from the position ($2, $3) on. A delivery that is being sent is left alone.
const REDELIVER = `
  WITH batch AS MATERIALIZED (
    SELECT n.id, n.created_at, n.event_id FROM notifications n
    WHERE n.endpoint_id = $1::uuid AND n.event_id IS NOT NULL AND (n.created_at, n.event_id) > ($2::timestamptz, $3::uuid)
      AND n.created_at < coalesce($4::timestamptz, 'infinity')
      AND n.state::text IN ('failed', 'sent', 'out_of_scope') AND ($5::text IS NULL OR n.state::text = $5::text)
      AND ($6::uuid IS NULL OR n.event_id = $6::uuid)
    ORDER BY n.created_at, n.event_id LIMIT ${BATCH}
    FOR UPDATE
  ), queued AS (
    UPDATE notifications n SET state = 'waiting', attempts = 0, crashes = 0, next_attempt_at = now()
    FROM batch WHERE n.id = batch.id
  )
  SELECT created_at AS "createdAt", event_id AS id FROM batch ORDER BY created_at, event_id`;

interface Position {
  createdAt: string;
  id: string;
}

/** Sends deliveries that have ended once more, with the same `webhook-id`. Those that wait or are being sent are not changed. */
export async function redeliver({ ctx, input }: Call<typeof schema.redeliverInput, InAppContext>) {
  const { endpointId, id = null, failed, since, until } = input;
  const { db } = ctx.services;
  const { enabled } = await getEndpoint({ ctx, input: { id: endpointId } });
  if (!enabled) throw invalid([{ field: "endpointId", issue: "the endpoint is disabled: enable it first" }]);
  const filters = [until?.toISOString() ?? null, failed ? "failed" : null, id];
  let last: Position | undefined = { createdAt: since?.toISOString() ?? "-infinity", id: NIL_UUID };
  let redelivered = 0;
  while (last) {
    const rows: Position[] = await db.query<Position>("redeliver", REDELIVER, [
      endpointId,
      last.createdAt,
      last.id,
      ...filters,
    ]);
    redelivered += rows.length;
    last = rows.length === BATCH ? rows.at(-1) : undefined;
  }
  if (id !== null && redelivered === 0) throw notFound();
  await audit(db, ctx, "webhook.redelivered", endpointId, { redelivered });
  return { redelivered };
}
