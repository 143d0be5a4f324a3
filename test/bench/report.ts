import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

/** Formats rows as an aligned Markdown table. The first column is text, the others are numbers. */
export function markdownTable(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const rule = widths.map((width, column) => (column === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`));
  const [head = [], ...body] = rows;
  const pad = (cell: string, column: number) => cell[column === 0 ? "padEnd" : "padStart"](widths[column] ?? 0);
  return [head, rule, ...body].map((row) => `| ${row.map(pad).join(" | ")} |\n`).join("");
}

/** Folder of everything that is kept between runs. */
export const dataFolder = (): string => join(packageRoot(), process.env.BENCH_FOLDER ?? "");

/** Prints a progress line to stderr; stdout is for results. */
export const progress = (line: string): void => void process.stderr.write(`${line}\n`);
