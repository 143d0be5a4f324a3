import type { Command } from "commander";
import { printableLine, printLine, toJson } from "../runtime/terminal.js";

/** Prints a value with --json, otherwise the text. */
export type Print = (value: unknown, text: string) => void;

/** Prints `value` as one line of JSON with --json, otherwise `text`. */
export function print(command: Command, value: unknown, text: string): void {
  printLine(process.stdout, command.opts().json ? toJson(value) : text);
}

/** Aligned `name: value` lines; names of nested records are joined with a dot. */
export function formatRecord(value: object): string {
  const entries = flatten(value);
  const width = Math.max(...entries.map(([name]) => name.length)) + 1;
  return entries.map(([name, cell]) => `${`${name}:`.padEnd(width)} ${cell}`).join("\n");
}

/** Names of properties, and names of other columns with what they show. */
export type Columns<Row> = readonly ((keyof Row & string) | readonly [name: string, cell: (row: Row) => unknown])[];

/** A table of these columns with a header; `none` if there are no rows. */
export function formatTable<Row extends object>(
  rows: readonly Row[],
  columns: Columns<NoInfer<Row>>,
  none: string,
): string {
  if (rows.length === 0) return none;
  const headings = columns.map((column) => formatHeading(typeof column === "string" ? column : column[0]));
  const cells = rows.map((row) =>
    columns.map((column) => formatCell(typeof column === "string" ? row[column] : column[1](row))),
  );
  const lines = [headings, ...cells];
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  const pad = (text: string, index: number) => text.padEnd(widths[index] ?? 0);
  return lines.map((line) => line.map(pad).join("  ").trimEnd()).join("\n");
}

const formatHeading = (name: string) => name.replace(/[A-Z]/g, (capital) => ` ${capital}`).toUpperCase();

const flatten = (value: object, prefix = ""): [string, string][] =>
  Object.entries(value).flatMap(([name, part]): [string, string][] =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? flatten(part, `${prefix}${name}.`)
      : [[prefix + name, formatCell(part)]],
  );

const MAX_CELL_LENGTH = 400;

const formatCell = (value: unknown) =>
  value === null || value === undefined ? "-" : printableLine(String(value)).slice(0, MAX_CELL_LENGTH);

/** `READ_WRITE` to `read-write`. */
export const toKebabCase = (constant: string) => constant.toLowerCase().replaceAll("_", "-");
