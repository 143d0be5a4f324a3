/** The candidate closest to `word`, or the only one that starts with it. Undefined if none is close enough. */
export function closestMatch(word: string, candidates: readonly string[]): string | undefined {
  const typed = word.toLowerCase();
  const ranked = candidates
    .map((candidate) => ({ candidate, distance: editDistance(typed, candidate.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  const [best] = ranked;
  if (best && best.distance <= maxDistance(typed)) return best.candidate;
  const completions = candidates.filter((candidate) => candidate.toLowerCase().startsWith(typed));
  return typed.length >= MIN_PREFIX_LENGTH && completions.length === 1 ? completions[0] : undefined;
}

const MIN_PREFIX_LENGTH = 3;

/** One typo in a short word, two in a longer one. */
const maxDistance = (word: string) => (word.length < 8 ? 1 : 2);

/** Optimal string alignment distance: insertions, deletions, replacements and swaps of neighbors. */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [];
  const at = (i: number, j: number) => rows[i]?.[j] ?? 0;
  for (let i = 0; i <= a.length; i++) {
    const row: number[] = [];
    rows.push(row);
    for (let j = 0; j <= b.length; j++) {
      if (i === 0 || j === 0) {
        row.push(i + j);
        continue;
      }
      const same = a[i - 1] === b[j - 1];
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row.push(
        Math.min(
          at(i - 1, j) + 1,
          at(i, j - 1) + 1,
          at(i - 1, j - 1) + (same ? 0 : 1),
          swapped ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
  }
  return at(a.length, b.length);
}
