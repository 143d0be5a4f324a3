import { InvalidArgumentError } from "commander";
import type { Finders } from "./services.js";

/** What was given for an argument or option. */
export interface Given<Value> {
  text: string;
  /** Returns the value that the core gets. `label` names the argument or option in errors. */
  find(finders: Finders | undefined, label: string): Value | Promise<Value>;
}

/** Reads the text of an argument or option. */
export interface Reader<Value> {
  /** Throws an InvalidArgumentError. `before` is what the same option has given before. */
  read(text: string, before?: Given<Value>): Given<Value>;
  /** The allowed texts, for the help. */
  choices?: string[];
}

export const parsed = <Value>(parse: (text: string) => Value): Reader<Value> => ({
  read(text) {
    const value = parse(text);
    return { text, find: () => value };
  },
});

export const TEXT = parsed((text) => text);
export const WHOLE_NUMBER = parsed(parseWholeNumber);
export const DURATION = parsed(parseDuration);

const found = (find: (finders: Finders, text: string, label: string) => Promise<string>): Reader<string> => ({
  read: (text) => ({
    text,
    find(finders, label) {
      if (!finders) throw new Error("A command without a database finds nothing.");
      return find(finders, text, label);
    },
  }),
});

// Each gives the id.
export const FORM = found(({ form }, text) => form(text));
export const KEY = found(({ key }, text) => key(text));
export const LISTING = found(({ listing }, text) => listing(text));
export const USER = found(({ user }, text) => user(text));

// The same in options, whose errors name the option.
export const LISTING_OPTION = found(({ listingOption }, text, label) => listingOption(text, label));
export const USER_OPTION = found(({ userOption }, text, label) => userOption(text, label));

/** Reads one of these words, which stands for its value. */
export function named<Value>(values: Record<string, Value>): Reader<Value> {
  const choices = Object.keys(values);
  const parse = (text: string) => {
    const value = Object.hasOwn(values, text) ? values[text] : undefined;
    if (value === undefined) throw new InvalidArgumentError(`Allowed choices are ${choices.join(", ")}.`);
    return value;
  };
  return { ...parsed(parse), choices };
}

export const oneOf = <Word extends string>(words: readonly Word[]): Reader<Word> =>
  named<Word>(Object.fromEntries(words.map((word) => [word, word])));

/** Reads null from one of the texts in `none`. */
export const orNone = <Value>(reader: Reader<Value>, none = ["none"]): Reader<Value | null> => ({
  read: (text) => (none.includes(text) ? { text, find: () => null } : reader.read(text)),
});

/** Reads an option that can be repeated. */
export const listOf = <Value>(reader: Reader<Value>): Reader<Value[]> => ({
  read(text, before) {
    const last = reader.read(text);
    return {
      text,
      find: async (finders, label) => [
        ...((await before?.find(finders, label)) ?? []),
        await last.find(finders, label),
      ],
    };
  },
});

function parseWholeNumber(text: string): number {
  if (!/^-?\d{1,15}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}

/** Reads whole numbers in this range. */
export const wholeNumberFrom = (min: number, max?: number): Reader<number> =>
  parsed((text) => {
    const number = parseWholeNumber(text);
    const range = max === undefined ? `at least ${min}` : `from ${min} to ${max}`;
    if (number < min || number > (max ?? number)) throw new InvalidArgumentError(`It must be ${range}.`);
    return number;
  });

const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Parses a duration such as 90s, 30m, 24h or 7d into seconds. */
function parseDuration(text: string): number {
  const [, amount, unit = ""] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const seconds = SECONDS[unit];
  if (!amount || !seconds) {
    throw new InvalidArgumentError("It must be a number with s, m, h or d, such as 30m or 24h.");
  }
  return Number(amount) * seconds;
}
