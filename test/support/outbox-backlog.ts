import { TEST_EVENT } from "../../server/constants.js";

type RunSql = (text: string, ...values: unknown[]) => Promise<{ id: string }[]>;

// Due in the past: the columns have milliseconds, and now() may be rounded up to a time in the future.

/** Adds emails of a tenant that wait for their first attempt. Returns their ids, the first one first. */
export const addEmails = async (sql: RunSql, tenantId: string, count: number, checkIn = "now() + interval '1 day'") =>
  (
    await sql(
      `INSERT INTO emails (kind, tenant_id, check_in_date, next_attempt_at, correlation_id)
       SELECT 'invitation', $1, ${checkIn}, now() - interval '1 minute', gen_random_uuid() FROM generate_series(1, $2::int)
       RETURNING id::text`,
      tenantId,
      count,
    )
  ).map(({ id }) => id);

/** Adds deliveries of an endpoint that wait since this time: SQL over `i`, their number from 1 on. Returns their ids in this order. */
export const addDeliveries = async (
  sql: RunSql,
  endpointId: string,
  count: number,
  since = "now() - interval '1 minute'",
) =>
  (
    await sql(
      `INSERT INTO webhook_deliveries
         (endpoint_id, event_id, event_type, created_at, queued_at, next_attempt_at, correlation_id)
       SELECT $1, gen_random_uuid(), '${TEST_EVENT}', ${since}, ${since}, ${since}, gen_random_uuid()
       FROM generate_series(1, $2::int) AS i RETURNING id::text`,
      endpointId,
      count,
    )
  ).map(({ id }) => id);
