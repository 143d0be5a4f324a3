import { type FieldError, invalid } from "../errors.js";
import type { Counts, Outcome } from "./schema.js";

export const noCounts = (): Counts => ({ created: 0, updated: 0, unchanged: 0 });

export function countOutcomes(outcomes: readonly Outcome[]): Counts {
  const counts = noCounts();
  for (const outcome of outcomes) counts[outcome]++;
  return counts;
}

export const addCounts = (a: Counts, b: Counts): Counts => ({
  created: a.created + b.created,
  updated: a.updated + b.updated,
  unchanged: a.unchanged + b.unchanged,
});

/** Throws VALIDATION_ERROR with all issues, each named by the position of its row. */
export function assertNoIssues(rows: readonly { issues: FieldError[] }[]): void {
  const errors = rows.flatMap(({ issues }, index) =>
    issues.map(({ field, issue }) => ({ field: `rows.${index}.${field}`, issue })),
  );
  if (errors.length > 0) throw invalid(errors);
}
