import { replaceHidden } from "../../server/hidden-characters.js";

// Tenants, guests, mail servers and receivers choose parts of what commands print. Their control characters could repaint the
// terminal, and their bidi controls the line.

const codeOf = (character: string) => character.codePointAt(0)?.toString(16) ?? "";

/** A text as it can be printed on a terminal: hidden characters but line breaks are shown, as `\u{1b}`. */
export const printable = (text: string): string =>
  replaceHidden(text, (character) => (character === "\n" ? character : `\\u{${codeOf(character)}}`));

/** The same on one line. */
export const printableLine = (text: string): string => printable(text.replace(/\s+/g, " "));

/** JSON whose strings have escapes for hidden characters. JSON.stringify leaves those from U+007F on. */
export const escapeJson = (json: string): string =>
  replaceHidden(json, (character) =>
    character === "\n"
      ? character
      : character.replace(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`),
  );

export const toJson = (value: unknown): string => escapeJson(JSON.stringify(value));

/** Prints a text and a line break to standard output or standard error. */
export const printLine = (stream: NodeJS.WriteStream, text: string): void => void stream.write(`${printable(text)}\n`);
