/** The stages of a form, in order: a form goes from any status of one stage to any of the next. */
export const STAGES = [
  ["SENT"],
  ["COMPLETED"],
  ["ACCEPTED", "REJECTED"],
  ["VALIDATED", "INVALIDATED"],
  ["CHECKED_OUT"],
] as const;

/** The statuses that this version knows. */
export const KNOWN_STATUSES: readonly string[] = STAGES.flat();

/** The public statuses; any other stored value is shown as UNKNOWN. */
export const FORM_STATUSES = [...STAGES.flat(), "UNKNOWN"] as const;

export type FormStatus = (typeof FORM_STATUSES)[number];

/** The known status that is least changes of a letter away, if these are few enough to be typing errors. */
export function similarStatus(status: string): string | undefined {
  const [nearest] = KNOWN_STATUSES.map((known) => ({ known, distance: editDistance(status, known) })).sort(
    (a, b) => a.distance - b.distance,
  );
  return nearest && nearest.distance <= nearest.known.length / 3 ? nearest.known : undefined;
}

/** Letters to insert, delete or replace (Levenshtein). */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1];
    for (const [column, other] of [...to].entries()) {
      const [left = 0, above = 0, diagonal = 0] = [next[column], row[column + 1], row[column]];
      next.push(Math.min(left + 1, above + 1, diagonal + (letter === other ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
