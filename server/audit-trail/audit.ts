import type { Context } from "../access/context.js";
import type { Sql } from "../database/db.js";

export type Details = Record<string, string | number | boolean | null | string[]>;

/** SQL that writes an entry per subject, with the values of `entryValues`. */
export const INSERT_ENTRIES = `
  INSERT INTO audit_entries (actor, actor_id, action, subject_id, correlation_id, details, actor_name)
  SELECT $1::text, $2::uuid, $3::text, subject_id, $5::uuid, details, $7::text
  FROM unnest($4::uuid[], $6::jsonb[]) AS entry (subject_id, details)`;

/** SQL that writes an entry by the system for each row of `rows`: subject id, correlation id and details. */
export const auditBySystemSql = (action: string, rows: string) => `
  INSERT INTO audit_entries (actor, action, subject_id, correlation_id, details)
  SELECT 'system', '${action}', subject_id, correlation_id, details
  FROM (${rows}) AS entry (subject_id, correlation_id, details)`;

/**
 * Writes one audit entry per subject. Call it in the transaction of the change. `details`, the same for all subjects or one
 * each, must contain only ids and field names, never personal data.
 */
export async function audit(
  tx: Sql,
  by: Pick<Context, "principal" | "correlationId">,
  action: string,
  subjects: string | readonly string[],
  details: Details | Details[] = {},
): Promise<void> {
  await tx.query("audit", INSERT_ENTRIES, entryValues(by, action, subjects, details));
}

/** The parameters $1 to $7 of `INSERT_ENTRIES`. */
export function entryValues(
  { principal, correlationId }: Pick<Context, "principal" | "correlationId">,
  action: string,
  subjects: string | readonly string[],
  details: Details | Details[],
) {
  const actor = principal?.kind ?? "system";
  const actorId = principal?.kind === "key" ? principal.keyId : principal?.kind === "user" ? principal.userId : null;
  const actorName = (principal?.kind === "operator" && principal.name) || null;
  const ids = [subjects].flat();
  const texts = (Array.isArray(details) ? details : ids.map(() => details)).map((each) => JSON.stringify(each));
  return [actor, actorId, action, ids, correlationId, texts, actorName];
}
