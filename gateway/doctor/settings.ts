import { settingsSchema } from "../../server/config.js";
import { closestMatch } from "../commands/closest-match.js";
import { type Check, ok, warning } from "./check.js";

/** Shorter names match too easily: POST is not a misspelled PORT. */
const MIN_NAME_LENGTH = 6;

/** Environment variables that almost match a setting's name. Other variables belong to other programs. */
export function misspelledSettings(
  env: Record<string, string | undefined>,
): { name: string; meant: string }[] {
  const known = Object.keys(settingsSchema.shape);
  return Object.keys(env).flatMap((name) => {
    if (known.includes(name) || name.length < MIN_NAME_LENGTH) return [];
    const meant = closestMatch(name, known);
    return meant ? [{ name, meant }] : [];
  });
}

/** Invalid settings end `doctor` before its checks. */
export const settingsCheck: Check = {
  name: "settings",
  run({ env }) {
    const misspelled = misspelledSettings(env).map(({ name, meant }) => `${name} (did you mean ${meant}?)`);
    return misspelled.length === 0
      ? ok("All settings are valid.")
      : warning(`Unknown settings: ${misspelled.join(", ")}. Rename or unset them.`);
  },
};
