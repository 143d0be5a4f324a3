import { type Command, Option } from "commander";
import type { Caller } from "../../server/caller.js";
import { DEFAULT_LIMIT, MAX_LIMIT } from "../../server/constants.js";
import { printLine } from "../runtime/terminal.js";
import type { Wording } from "./failure.js";
import { notes } from "./help.js";
import { formatRecord, print, withJson } from "./print.js";
import type { Finders } from "./services.js";
import { wholeNumberFrom } from "./values.js";

export const DATABASE_HELP = `\
Uses the database in DATABASE_URL with APP_SECRETS. Unless NODE_ENV is "production", they default to those of a
\`guest-forms dev\` running in the current folder.`;

/** A command that reads or changes data through the core. `Given` has its arguments and options by name. */
interface DataCommand<Given, Result> extends Wording {
  description: string;
  options?: Option[];
  /** Text after the options. */
  help?: string;
  /** Throws an InvalidArgumentError if what was given does not fit together. */
  check?(given: Given & { json?: true }): void;
  call(core: Caller, given: Given, find: Finders): Promise<Result>;
  /** Formats the result as text, by default as a record. Undefined if the call has printed it. */
  text?(result: Result, given: Given): string | undefined;
  /** Why the result is incomplete; undefined if it is not. Printed after the result, with exit code 1. */
  problem?(result: Result, given: Given): string | undefined;
}

export function addDataCommand<Given, Result extends object>(
  parent: Command,
  usage: string,
  definition: DataCommand<Given, Result>,
): Command {
  const { description, options = [], help, check, call, text = formatRecord, problem, ...wording } = definition;
  const command = withJson(parent.command(usage)).description(description).addHelpText("after", notes(DATABASE_HELP));
  for (const option of options) command.addOption(option);
  if (help) command.addHelpText("after", notes(help));
  return command.action(async () => {
    const { json, ...options } = command.opts();
    const args = command.registeredArguments.map((argument, index) => [argument.name(), command.args[index]]);
    const given: Given = { ...options, ...Object.fromEntries(args) };
    check?.({ ...given, json });
    const { callCore } = await import("./services.js");
    const result = await callCore((core, find) => call(core, given, find), wording);
    const printed = text(result, given);
    if (printed !== undefined) print(command, result, printed);
    const incomplete = problem?.(result, given);
    if (incomplete === undefined) return;
    printLine(process.stderr, `error: ${incomplete}`);
    process.exitCode = 1;
  });
}

/** What a list passes on to the core. */
export interface PageRequest {
  limit: number;
  cursor?: string;
}

interface ListCommand<Given, Item, Page extends { items: Item[]; nextCursor: string | null }>
  extends Omit<DataCommand<Given, Page>, "call" | "text"> {
  call(core: Caller, given: Given & PageRequest, find: Finders): Promise<Page>;
  table(items: Page["items"], given: Given): string;
}

/** Adds a command that prints a page of results. */
export const addListCommand = <Given, Item, Page extends { items: Item[]; nextCursor: string | null }>(
  parent: Command,
  usage: string,
  { options = [], call, table, ...list }: ListCommand<Given, Item, Page>,
): Command =>
  addDataCommand<Given & PageRequest & { after?: string }, Page>(parent, usage, {
    ...list,
    options: [
      new Option("--limit <number>", `number of results, at most ${MAX_LIMIT}`)
        .argParser(wholeNumberFrom(1, MAX_LIMIT))
        .default(DEFAULT_LIMIT),
      new Option("--after <cursor>", "show the next page: the cursor printed after the previous one"),
      ...options,
    ],
    call: (core, { after, ...given }, find) => call(core, { ...given, cursor: after } as Given & PageRequest, find),
    text: ({ items, nextCursor }, given) => {
      const next = nextCursor === null ? "" : `\n\nMore results: run this again with --after ${nextCursor}`;
      return `${table(items, given)}${next}`;
    },
  });

/** An option of lists that can be searched. */
export const searchOption = (fields: string) =>
  new Option("--search <text>", `only those whose ${fields} contains this text, ignoring case`);

/** How options name a user. */
export const USER_REFERENCE = "id, external id or email address";

/** An option that must be given. */
export const required = (flags: string, description: string): Option =>
  new Option(flags, `${description} (required)`).makeOptionMandatory();
