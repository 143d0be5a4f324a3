import { settingsSchema } from "../../server/config.js";
import { nearest } from "../commands/nearest.js";
import { type Check, ok, warning } from "./check.js";

/** Shorter names are near to too many others: POST is no misspelt PORT. */
const SHORTEST_NAME = 6;

/**
 * Variables of the environment that no setting has the name of, but that nearly have one: all others belong to other
 * programs.
 */
export function misspeltSettings(env: Record<string, string | undefined>): { name: string; meant: string }[] {
  const known = Object.keys(settingsSchema.shape);
  return Object.keys(env).flatMap((name) => {
    if (known.includes(name) || name.length < SHORTEST_NAME) return [];
    const meant = nearest(name, known);
    return meant ? [{ name, meant }] : [];
  });
}

/** Settings that cannot be read at all end `doctor` before its checks. */
export const settingsCheck: Check = {
  name: "settings",
  run({ env }) {
    const misspelt = misspeltSettings(env).map(({ name, meant }) => `${name} (did you mean ${meant}?)`);
    return misspelt.length === 0
      ? ok("All values can be used.")
      : warning(`Nothing reads ${misspelt.join(", ")}: rename or unset it.`);
  },
};
