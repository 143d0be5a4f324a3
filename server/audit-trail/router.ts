import { z } from "zod";
import { operatorProcedure, router } from "../trpc.js";
import * as schema from "./schema.js";

// An entry by a key stores only the key's id, so the join adds its holder.
const ENTRY = `
  SELECT e.id::text, e.at, e.actor, e.actor_id AS "actorId", e.actor_name AS "actorName", e.action, e.subject_id AS "subjectId",
    e.correlation_id AS "correlationId", e.details,
    CASE e.actor WHEN 'user' THEN e.actor_id WHEN 'key' THEN k.user_id END AS "userId",
    CASE WHEN e.action LIKE 'key.%' THEN (SELECT subject.prefix FROM api_keys subject WHERE subject.id = e.subject_id) END AS "keyPrefix"
  FROM audit_entries e LEFT JOIN api_keys k ON e.actor = 'key' AND k.id = e.actor_id`;

// The changes of a user include those of its keys and webhook endpoints, of which the newest of each are read by the index.
const BY_SUBJECT = `
  SELECT entry.* FROM (
    SELECT $1::uuid AS id
    UNION ALL SELECT id FROM api_keys WHERE user_id = $1::uuid
    UNION ALL SELECT id FROM webhook_endpoints WHERE user_id = $1::uuid
  ) subject CROSS JOIN LATERAL (
    ${ENTRY} WHERE e.subject_id = subject.id AND e.id < $2::bigint ORDER BY e.id DESC LIMIT $3::int
  ) entry
  ORDER BY entry.id::bigint DESC LIMIT $3::int`;
const BY_CORRELATION_ID = `${ENTRY} WHERE e.correlation_id = $1::uuid ORDER BY e.id`;

// Read by the index of the forms that the request has changed.
const DELIVERIES = `
  SELECT n.event_id AS id, n.endpoint_id AS "endpointId", n.event_type AS event, n.form_id AS "formId", n.state,
    n.attempts, n.response_status AS "responseStatus", n.next_attempt_at AS "nextAttemptAt"
  FROM (SELECT DISTINCT subject_id FROM audit_entries WHERE correlation_id = $1::uuid) e
    JOIN webhook_deliveries n ON n.form_id = e.subject_id
  WHERE n.correlation_id = $1::uuid
  ORDER BY n.id`;

const MAX_ENTRY_ID = "9223372036854775807";

export const auditRouter = router({
  /** Audit entries of a form, listing, key, webhook endpoint or user with its keys and endpoints, newest first. Operator. */
  trail: operatorProcedure
    .input(schema.trailInput)
    .output(z.array(schema.auditEntry))
    .query(({ ctx: { services }, input: { subjectId, before = MAX_ENTRY_ID, limit } }) =>
      services.db.query<schema.AuditEntry>("audit-of-subject", BY_SUBJECT, [subjectId, before, limit]),
    ),
  /**
   * Changes made by the request with this correlation id, and the webhook deliveries of them, in order; none if it only read,
   * failed or never happened. Operator.
   */
  trace: operatorProcedure
    .input(schema.traceInput)
    .output(schema.trace)
    .query(async ({ ctx: { services }, input: { correlationId } }) => {
      const { db } = services;
      const [entries, deliveries] = await Promise.all([
        db.query<schema.AuditEntry>("audit-of-correlation", BY_CORRELATION_ID, [correlationId]),
        db.query<schema.TracedDelivery>("deliveries-of-correlation", DELIVERIES, [correlationId]),
      ]);
      return { correlationId, logField: "correlationId" as const, entries, deliveries };
    }),
});
