import type { Context } from "./context.js";
import { queryIn, type Sql, type Transaction } from "./db.js";

type Details = Record<string, string | number | boolean | null | string[]>;

const INSERT = `
  INSERT INTO audit_entries (actor, actor_id, action, subject_id, correlation_id, details)
  SELECT $1::text, $2::uuid, $3::text, subject_id, $5::uuid, $6::jsonb FROM unnest($4::uuid[]) AS subject_id`;

/**
 * Writes one audit entry per subject. Call it in the transaction of the change. `details` must contain only ids and field
 * names, never personal data.
 */
export async function audit(
  tx: Sql | Transaction,
  { principal, correlationId }: Pick<Context, "principal" | "correlationId">,
  action: string,
  subjects: string | readonly string[],
  details: Details = {},
): Promise<void> {
  const actorId =
    principal?.kind === "key" ? principal.keyId : principal?.kind === "user" ? principal.userId : null;
  const ids = typeof subjects === "string" ? [subjects] : subjects;
  const actor = principal?.kind ?? "system";
  const values = [actor, actorId, action, ids, correlationId, JSON.stringify(details)];
  await queryIn(tx, "audit", INSERT, values);
}
