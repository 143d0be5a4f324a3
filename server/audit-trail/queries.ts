import type { z } from "zod";
import type { Context } from "../context.js";
import type { AuditEntry, Trace, trailInput } from "./schema.js";

// An entry by a key stores only the key's id, so the join adds its holder.
const ENTRY = `
  SELECT e.id::text, e.at, e.actor, e.actor_id AS "actorId", e.action, e.subject_id AS "subjectId",
    e.correlation_id AS "correlationId", e.details,
    CASE e.actor WHEN 'user' THEN e.actor_id WHEN 'key' THEN k.user_id END AS "userId"
  FROM audit_entries e LEFT JOIN api_keys k ON e.actor = 'key' AND k.id = e.actor_id`;

const BY_SUBJECT = `${ENTRY}
  WHERE e.subject_id = $1::uuid AND e.id < $2::bigint
  ORDER BY e.id DESC
  LIMIT $3::int`;

const BY_CORRELATION_ID = `${ENTRY}
  WHERE e.correlation_id = $1::uuid
  ORDER BY e.id`;

const MAX_ENTRY_ID = "9223372036854775807";

/** Entries of a form, listing, key or user, newest first; empty if the id is unknown. */
export async function listAuditEntries(
  { services }: Context,
  { subjectId, before, limit }: z.output<typeof trailInput>,
): Promise<AuditEntry[]> {
  return services.db.query<AuditEntry>("audit-of-subject", BY_SUBJECT, [
    subjectId,
    before ?? MAX_ENTRY_ID,
    limit,
  ]);
}

/** Changes made by one request, in order; empty if it only read, failed or never happened. */
export async function getTrace({ services }: Context, correlationId: string): Promise<Trace> {
  const entries = await services.db.query<AuditEntry>("audit-of-correlation", BY_CORRELATION_ID, [
    correlationId,
  ]);
  return { correlationId, logField: "correlationId", entries };
}
