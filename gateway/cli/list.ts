import { DEFAULT_LIMIT, MAX_LIMIT } from "../../server/constants.js";
import { type CoreBehavior, coreCommand, type Entry } from "./command.js";
import { type Fields, option, optionWithDefault } from "./fields.js";
import { type Columns, formatTable } from "./print.js";
import { TEXT, wholeNumberFrom } from "./readers.js";

/** What a list passes on to the core. */
interface PageRequest {
  limit: number;
  cursor: string | undefined;
}

interface Page<Item> {
  items: Item[];
  nextCursor: string | null;
}

const PAGING: Fields<PageRequest> = {
  limit: optionWithDefault(
    "--limit <number>",
    `number of results, at most ${MAX_LIMIT}`,
    wholeNumberFrom(1, MAX_LIMIT),
    String(DEFAULT_LIMIT),
  ),
  cursor: option("--after <cursor>", "show the next page: the cursor printed after the previous one", TEXT),
};

interface ListBehavior<Input, Item> extends Omit<CoreBehavior<Input & PageRequest, Page<Item>>, "text"> {
  input?: Fields<Input>;
  columns: Columns<Item> | ((input: NoInfer<Input>) => Columns<Item>);
  /** Text if there are no items. */
  none: string | ((input: NoInfer<Input>) => string);
}

/** A command that prints a page of results. */
export const list = <Input extends object, Item extends object>({
  input,
  columns,
  none,
  ...behavior
}: ListBehavior<Input, Item>): Entry =>
  coreCommand<Input & PageRequest, Page<Item>>(
    {
      ...behavior,
      text({ items, nextCursor }, given) {
        const next = nextCursor === null ? "" : `\n\nMore results: run this again with --after ${nextCursor}`;
        const shown = typeof columns === "function" ? columns(given) : columns;
        const empty = typeof none === "function" ? none(given) : none;
        return `${formatTable(items, shown, empty)}${next}`;
      },
    },
    { ...PAGING, ...input },
  );
