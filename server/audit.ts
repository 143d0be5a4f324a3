import type { Context } from "./context.js";
import type { Transaction } from "./db.js";

type Details = Record<string, string | number | boolean | null | string[]>;

type By = Pick<Context, "principal" | "correlationId">;

/** Writes who did what, in the transaction that does it. `details` holds ids and field names only. */
export async function audit(
  tx: Transaction,
  by: By,
  action: string,
  subjectId: string,
  details: Details = {},
): Promise<void> {
  const data = { ...authorOf(by), action, subjectId, details };
  await tx.auditEntry.create({ data, select: { id: true } });
}

/** The same of several subjects at once, an entry each. */
export async function auditEach(
  tx: Transaction,
  by: By,
  action: string,
  subjectIds: readonly string[],
  details: Details = {},
): Promise<void> {
  const author = authorOf(by);
  await tx.auditEntry.createMany({
    data: subjectIds.map((subjectId) => ({ ...author, action, subjectId, details })),
  });
}

function authorOf({ principal, correlationId }: By) {
  const actorId =
    principal?.kind === "key" ? principal.keyId : principal?.kind === "user" ? principal.userId : null;
  return { actor: principal?.kind ?? "system", actorId, correlationId };
}
