import { settingsSchema } from "../../server/config.js";
import { findNearMiss } from "../cli/near-misses.js";

export type Environment = Record<string, string | undefined>;

/** Environment variables that almost match a setting's name. Other variables belong to other programs. */
export function misspelledSettings(env: Environment): { name: string; meant: string }[] {
  const known = Object.keys(settingsSchema.shape);
  return Object.keys(env).flatMap((name) => {
    // Shorter names match too easily: POST is not a misspelled PORT.
    if (known.includes(name) || name.length < 6) return [];
    const given = name.toUpperCase();
    const completions = known.filter((setting) => setting.startsWith(given));
    const meant = findNearMiss(name, known) ?? (completions.length === 1 ? completions[0] : undefined);
    return meant ? [{ name, meant }] : [];
  });
}
