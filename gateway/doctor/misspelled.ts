import { settingsSchema } from "../../server/config.js";

export type Environment = Record<string, string | undefined>;

/** Environment variables that almost match a setting's name. Other variables belong to other programs. */
export function misspelledSettings(env: Environment): { name: string; meant: string }[] {
  const known = Object.keys(settingsSchema.shape);
  return Object.keys(env).flatMap((name) => {
    // Shorter names match too easily: POST is not a misspelled PORT.
    if (known.includes(name) || name.length < 6) return [];
    const given = name.toUpperCase();
    const completions = known.filter((setting) => setting.startsWith(given));
    const meant =
      known.find((setting) => isWithinEdits(1, given, setting)) ??
      known.find((setting) => name.length >= 8 && isWithinEdits(2, given, setting)) ??
      (completions.length === 1 ? completions[0] : undefined);
    return meant ? [{ name, meant }] : [];
  });
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
