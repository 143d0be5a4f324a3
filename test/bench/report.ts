import type { Figures, Result } from "./measure.js";
import { SERVERS } from "./servers.js";

const formatInteger = (value: number) => Math.round(value).toLocaleString("en");
const formatMs = (microseconds: number) => (microseconds / 1000).toPrecision(3);
const formatRatio = (value: number) => (value >= 10 ? value.toFixed(0) : value.toFixed(2));

const HEAD = [
  "operation",
  "server",
  ...[
    "requests/s",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "CPU µs",
    "Postgres CPU µs",
    "KB allocated",
    "survived %",
  ],
  ...["requests/s ÷ L", "÷ L+", "÷ T", "p99 ÷ L", "p99.9 ÷ L", "CPU ÷ L"],
];

/** Formats the results as a Markdown table with a row per operation and server. */
export function resultTable(results: readonly Result[]): string {
  const rows = results.flatMap((result) =>
    SERVERS.flatMap((name) => {
      const own = result.servers[name];
      if (!own) return [];
      const isService = name === "service";
      return [[isService ? result.title : "", name, ...cells(own), ...(isService ? ratioCells(result) : [])]];
    }),
  );
  return markdownTable([HEAD, ...rows]);
}

const cells = (own: Figures) => [
  formatInteger(own.requestsPerSecond),
  formatMs(own.p50),
  formatMs(own.p99),
  formatMs(own.p999),
  formatInteger(own.cpu),
  own.postgresCpu === null ? "" : formatInteger(own.postgresCpu),
  (own.allocated / 1000).toFixed(0),
  (own.survived * 100).toFixed(1),
];

const ratioCells = ({ relativeTo: { L, "L+": plus, T } }: Result) =>
  [L?.requestsPerSecond, plus?.requestsPerSecond, T?.requestsPerSecond, L?.p99, L?.p999, L?.cpu].map(
    (ratio) => (ratio === undefined ? "" : formatRatio(ratio)),
  );

/** Formats rows as an aligned Markdown table. The first two columns are text, the others numbers. */
export function markdownTable(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: string[]) =>
    `| ${row.map((cell, column) => (column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(" | ")} |`;
  const [head = [], ...body] = rows;
  const rule = `|${widths.map((width, column) => "-".repeat(width + 1) + (column < 2 ? "-" : ":")).join("|")}|`;
  return [line(head), rule, ...body.map(line)].join("\n");
}
