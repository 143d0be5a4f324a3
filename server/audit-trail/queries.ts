import type { z } from "zod";
import type { Context } from "../context.js";
import type { AuditEntry, Trace, trailInput } from "./schema.js";

// The key's holder is looked up, for the entry keeps the key alone.
const ENTRY = `
  SELECT e.id::text, e.at, e.actor, e.actor_id AS "actorId", e.action, e.subject_id AS "subjectId",
    e.correlation_id AS "correlationId", e.details,
    CASE e.actor WHEN 'user' THEN e.actor_id WHEN 'key' THEN k.user_id END AS "userId"
  FROM audit_entries e LEFT JOIN api_keys k ON e.actor = 'key' AND k.id = e.actor_id`;

const OF_SUBJECT = `${ENTRY}
  WHERE e.subject_id = $1::uuid AND e.id < $2::bigint
  ORDER BY e.id DESC
  LIMIT $3::int`;

const OF_CORRELATION = `${ENTRY}
  WHERE e.correlation_id = $1::uuid
  ORDER BY e.id`;

const MAX_ENTRY_ID = "9223372036854775807";

/** What happened to a form, a listing, a key or a user, newest first; nothing where the id is unknown. */
export async function listAuditEntries(
  { services }: Context,
  { subjectId, before, limit }: z.output<typeof trailInput>,
): Promise<AuditEntry[]> {
  return services.db.query<AuditEntry>("audit-of-subject", OF_SUBJECT, [
    subjectId,
    before ?? MAX_ENTRY_ID,
    limit,
  ]);
}

/** What one request or call did, in order; nothing where it only read, failed, or never was. */
export async function getTrace({ services }: Context, correlationId: string): Promise<Trace> {
  const entries = await services.db.query<AuditEntry>("audit-of-correlation", OF_CORRELATION, [
    correlationId,
  ]);
  return { correlationId, logField: "correlationId", entries };
}
