import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

/** Formats rows as an aligned Markdown table. The first two columns are text, the others numbers. */
export function markdownTable(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: string[]) =>
    `| ${row.map((cell, column) => (column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(" | ")} |`;
  const [head = [], ...body] = rows;
  const rule = `|${widths.map((width, column) => "-".repeat(width + 1) + (column < 2 ? "-" : ":")).join("|")}|`;
  return [line(head), rule, ...body.map(line)].join("\n");
}

/** Folder of everything that is kept between runs. */
export const dataFolder = () => join(packageRoot(), ".data", "bench");

export const benchFolder = () => join(packageRoot(), "test/bench");

/** Prints a progress line to stderr; stdout is for results. */
export const progress = (line: string): void => void process.stderr.write(`${line}\n`);
