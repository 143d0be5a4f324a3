import { isUuid } from "../values.js";

// What a text may name. Nothing is looked up here.

const UUID_ANYWHERE = /(?<![\da-f])[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}(?![\da-f])/gi;

const API_KEY = /grf_\w+/;

export const apiKeyIn = (text: string): string | undefined => API_KEY.exec(text)?.[0];

/** The first 8 or more digits of an id, as lists show it. */
const BEGINNING = /^[\da-f]{8}[\da-f-]*…?$/i;

const HEX_DIGITS = 32;

const toUuid = (digits: string) => digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");

/** The lowest and the highest id that the text may name: the last id in it, or the beginning of one. */
export function idRangeIn(text: string): [lowest: string, highest: string] | undefined {
  const id = text.match(UUID_ANYWHERE)?.at(-1)?.toLowerCase();
  if (id) return [id, id];
  const digits = text.replaceAll(/[-…]/g, "").toLowerCase();
  if (!BEGINNING.test(text) || digits.length >= HEX_DIGITS) return undefined;
  const [lowest, highest] = ["0", "f"].map((digit) => toUuid(digits.padEnd(HEX_DIGITS, digit)));
  return lowest && highest && isUuid(lowest) ? [lowest, highest] : undefined;
}
