import { InvalidArgumentError } from "commander";

/** A whole number on the command line. */
export function wholeNumber(text: string): number {
  if (!/^-?\d{1,15}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}

export type NumberOrNone = number | "none";

/** A whole number, or "none"; commander would turn a null into something else. */
export const wholeNumberOrNone = (text: string): NumberOrNone => (text === "none" ? text : wholeNumber(text));

/** `none` as the core takes it. */
export const orNull = <Value>(value: Value | "none"): Value | null => (value === "none" ? null : value);

/** A port to listen on. */
export function port(text: string): number {
  const number = wholeNumber(text);
  if (number < 0 || number > 65_535) throw new InvalidArgumentError("It must be from 0 to 65535.");
  return number;
}

const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** A span such as 90s, 30m, 24h or 7d, in seconds. */
export function span(text: string): number {
  const [, amount, unit = ""] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const seconds = SECONDS[unit];
  if (!amount || !seconds) {
    throw new InvalidArgumentError("It must be a number with s, m, h or d, such as 30m or 24h.");
  }
  return Number(amount) * seconds;
}

/** `READ_WRITE` as it is typed and printed: `read-write`. */
export const spoken = (constant: string) => constant.toLowerCase().replaceAll("_", "-");
