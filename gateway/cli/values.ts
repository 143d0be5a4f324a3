import { InvalidArgumentError } from "commander";

export function parseWholeNumber(text: string): number {
  if (!/^-?\d{1,15}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}

export type NumberOrNone = number | "none";

/** Keeps "none" as a string because commander replaces null. */
export const parseWholeNumberOrNone = (text: string): NumberOrNone => (text === "none" ? text : parseWholeNumber(text));

export const noneToNull = <Value>(value: Value | "none"): Value | null => (value === "none" ? null : value);

/** Returns a parser of whole numbers in this range. */
export const wholeNumberFrom =
  (min: number, max?: number) =>
  (text: string): number => {
    const number = parseWholeNumber(text);
    const range = max === undefined ? `at least ${min}` : `from ${min} to ${max}`;
    if (number < min || number > (max ?? number)) throw new InvalidArgumentError(`It must be ${range}.`);
    return number;
  };

const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Parses a duration such as 90s, 30m, 24h or 7d into seconds. */
export function parseDuration(text: string): number {
  const [, amount, unit = ""] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const seconds = SECONDS[unit];
  if (!amount || !seconds) {
    throw new InvalidArgumentError("It must be a number with s, m, h or d, such as 30m or 24h.");
  }
  return Number(amount) * seconds;
}

/** Returns a parser of an option that can be repeated, if given with one of these values each time. */
export const listOf =
  (choices?: readonly string[]) =>
  (text: string, before: string[] = []): string[] => {
    if (choices && !choices.includes(text))
      throw new InvalidArgumentError(`Allowed choices are ${choices.join(", ")}.`);
    return [...before, text];
  };

/** `READ_WRITE` to `read-write`. */
export const toKebabCase = (constant: string) => constant.toLowerCase().replaceAll("_", "-");
