import { type Command, InvalidArgumentError } from "commander";
import { DEFAULT_LIMIT, MAX_LIMIT } from "../../server/page-size.js";
import { parseWholeNumber } from "./values.js";

export interface PageOptions {
  limit: number;
  after?: string;
}

/** Adds `--limit` and `--after`, the options of every list. */
export const withPages = (command: Command): Command =>
  command
    .option("--limit <number>", `number of results, at most ${MAX_LIMIT}`, parseLimit, DEFAULT_LIMIT)
    .option("--after <cursor>", "show the next page: the cursor printed after the previous one");

function parseLimit(text: string): number {
  const number = parseWholeNumber(text);
  if (number < 1 || number > MAX_LIMIT) throw new InvalidArgumentError(`It must be from 1 to ${MAX_LIMIT}.`);
  return number;
}

/** The page's table, and how to get the next page. */
export const formatPage = (table: string, { nextCursor }: { nextCursor: string | null }): string =>
  nextCursor === null ? table : `${table}\n\nMore results: run this again with --after ${nextCursor}`;
