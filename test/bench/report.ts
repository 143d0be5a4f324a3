import type { Figures, Result } from "./measure.js";
import { SERVERS, type ServerName } from "./servers.js";

const formatInteger = (value: number) => Math.round(value).toLocaleString("en");
const formatMs = (microseconds: number) => (microseconds / 1000).toPrecision(3);
const formatRatio = (value: number) => (value >= 10 ? value.toFixed(0) : value.toFixed(2));

const HEAD = [
  "operation",
  "server",
  "requests/s",
  "p50 ms",
  "p99 ms",
  "CPU µs",
  "Postgres CPU µs",
  "requests/s ÷ L",
  "requests/s ÷ T",
  "CPU ÷ L",
];

/** Formats the results as a Markdown table with a row per operation and server. */
export function resultTable(results: readonly Result[]): string {
  const rows = results.flatMap((result) =>
    SERVERS.flatMap((name) => {
      const own = result.servers[name];
      return own ? [[name === "service" ? result.title : "", name, ...cells(name, own, result)]] : [];
    }),
  );
  return markdownTable([HEAD, ...rows]);
}

function cells(name: ServerName, own: Figures, { servers: { T }, relativeToL }: Result): string[] {
  const formatIfService = (value: number | undefined) =>
    name === "service" && value ? formatRatio(value) : "";
  return [
    formatInteger(own.requestsPerSecond),
    formatMs(own.p50),
    formatMs(own.p99),
    formatInteger(own.cpu),
    own.postgresCpu === null ? "" : formatInteger(own.postgresCpu),
    formatIfService(relativeToL?.requestsPerSecond),
    formatIfService(T && own.requestsPerSecond / T.requestsPerSecond),
    formatIfService(relativeToL?.cpu),
  ];
}

/** Formats rows as an aligned Markdown table. The first two columns are text, the others numbers. */
export function markdownTable(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: string[]) =>
    `| ${row.map((cell, column) => (column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(" | ")} |`;
  const [head = [], ...body] = rows;
  const rule = `|${widths.map((width, column) => "-".repeat(width + 1) + (column < 2 ? "-" : ":")).join("|")}|`;
  return [line(head), rule, ...body.map(line)].join("\n");
}
