/** The known name that `given` almost is. Undefined if it is a known name, or like none. */
export function findNearMiss(given: string, known: readonly string[]): string | undefined {
  if (known.includes(given)) return undefined;
  const isNear = (edits: number) => (name: string) => isWithinEdits(edits, given.toLowerCase(), name.toLowerCase());
  return known.find(isNear(1)) ?? (given.length >= 8 ? known.find(isNear(2)) : undefined);
}

/** Whether at most `edits` characters need to be inserted, deleted or replaced to turn one word into the other. */
function isWithinEdits(edits: number, one: string, other: string): boolean {
  if (one === other) return true;
  if (edits === 0 || Math.abs(one.length - other.length) > edits) return false;
  let start = 0;
  while (one[start] === other[start]) start++;
  const [a, b] = [one.slice(start), other.slice(start)];
  const [restOfA, restOfB] = [a.slice(1), b.slice(1)];
  return [
    [restOfA, restOfB],
    [restOfA, b],
    [a, restOfB],
  ].some(([x = "", y = ""]) => isWithinEdits(edits - 1, x, y));
}
