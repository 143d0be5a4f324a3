import { type Command, InvalidArgumentError } from "commander";
import { DEFAULT_LIMIT, MAX_LIMIT } from "../../server/page-size.js";
import { wholeNumber } from "./values.js";

export interface PageOptions {
  limit: number;
  after?: string;
}

/** Adds `--limit` and `--after`, which every list takes. */
export const withPages = (command: Command): Command =>
  command
    .option("--limit <number>", `how many to show, at most ${MAX_LIMIT}`, limit, DEFAULT_LIMIT)
    .option("--after <cursor>", "show the next page: the cursor that the last one ended with");

function limit(text: string): number {
  const number = wholeNumber(text);
  if (number < 1 || number > MAX_LIMIT) throw new InvalidArgumentError(`It must be from 1 to ${MAX_LIMIT}.`);
  return number;
}

/** A page as text: its table, and how to get the next one. */
export const paged = (table: string, { nextCursor }: { nextCursor: string | null }): string =>
  nextCursor === null ? table : `${table}\n\nThere are more: repeat this with --after ${nextCursor}`;
