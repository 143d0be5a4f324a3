import type { Context } from "./context.js";
import { queryIn, type Sql, type Transaction } from "./db.js";

type Details = Record<string, string | number | boolean | null | string[]>;

const INSERT = `
  INSERT INTO audit_entries (actor, actor_id, action, subject_id, correlation_id, details)
  SELECT $1::text, $2::uuid, $3::text, subject_id, $5::uuid, details
  FROM unnest($4::uuid[], $6::jsonb[]) AS entry (subject_id, details)`;

/** SQL that writes an entry by the system for each row of `rows`: subject id, correlation id and details. */
export const auditBySystemSql = (action: string, rows: string) => `
  INSERT INTO audit_entries (actor, action, subject_id, correlation_id, details)
  SELECT 'system', '${action}', subject_id, correlation_id, details
  FROM (${rows}) AS entry (subject_id, correlation_id, details)`;

/**
 * Writes one audit entry per subject. Call it in the transaction of the change. `details` must contain only ids and field
 * names, never personal data.
 */
export const audit = (
  tx: Sql | Transaction,
  by: Pick<Context, "principal" | "correlationId">,
  action: string,
  subjects: string | readonly string[],
  details: Details = {},
): Promise<void> =>
  auditEach(
    tx,
    by,
    action,
    (typeof subjects === "string" ? [subjects] : subjects).map((subjectId) => ({ subjectId, details })),
  );

/** The same with details of their own for each subject. */
export async function auditEach(
  tx: Sql | Transaction,
  { principal, correlationId }: Pick<Context, "principal" | "correlationId">,
  action: string,
  entries: readonly { subjectId: string; details: Details }[],
): Promise<void> {
  const actorId =
    principal?.kind === "key" ? principal.keyId : principal?.kind === "user" ? principal.userId : null;
  const ids = entries.map(({ subjectId }) => subjectId);
  const details = entries.map((entry) => JSON.stringify(entry.details));
  const actor = principal?.kind ?? "system";
  const values = [actor, actorId, action, ids, correlationId, details];
  await queryIn(tx, "audit", INSERT, values);
}
