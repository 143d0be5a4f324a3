import type { Command } from "commander";

/** Adds `--json`, which every command takes. */
export const withJson = (command: Command): Command =>
  command.option("--json", "print one JSON value on standard output, and nothing else there");

/** Prints a result: one line of JSON if that was asked for, otherwise text for people. */
export function print(command: Command, value: unknown, text: string): void {
  process.stdout.write(`${command.opts().json ? JSON.stringify(value) : text}\n`);
}

/** `name: value` lines, the values aligned; a nested record's names are joined with a dot. */
export function record(value: object): string {
  const entries = flatten(value);
  const width = Math.max(...entries.map(([name]) => name.length)) + 1;
  return entries.map(([name, cell]) => `${`${name}:`.padEnd(width)} ${cell}`).join("\n");
}

/** A table of these columns with a header; `none` where there are no rows. */
export function table<Row extends object>(
  rows: readonly Row[],
  columns: (keyof Row & string)[],
  none: string,
): string {
  if (rows.length === 0) return none;
  const lines = [columns.map(heading), ...rows.map((row) => columns.map((column) => cell(row[column])))];
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((text, index) => text.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

const heading = (name: string) => name.replace(/[A-Z]/g, (capital) => ` ${capital}`).toUpperCase();

const flatten = (value: object, prefix = ""): [string, string][] =>
  Object.entries(value).flatMap(([name, part]): [string, string][] =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? flatten(part, `${prefix}${name}.`)
      : [[prefix + name, cell(part)]],
  );

const MOST = 400;

// An error's text may span lines; a table's row may not.
const cell = (value: unknown) =>
  value === null || value === undefined ? "-" : String(value).replace(/\s+/g, " ").slice(0, MOST);
