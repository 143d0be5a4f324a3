import type { Figures, Result } from "./measure.js";
import { SERVERS, type ServerName } from "./servers.js";

const whole = (value: number) => Math.round(value).toLocaleString("en");
const milliseconds = (microseconds: number) => (microseconds / 1000).toPrecision(3);
const ratio = (value: number) => (value >= 10 ? value.toFixed(0) : value.toFixed(2));

const HEAD = [
  "operation",
  "server",
  "requests/s",
  "p50 ms",
  "p99 ms",
  "CPU µs",
  "Postgres CPU µs",
  "requests/s ÷ L",
  "to T",
  "CPU ÷ L",
];

/** The results as a Markdown table: a row for each operation and server. */
export function table(results: readonly Result[]): string {
  const rows = results.flatMap((result) =>
    SERVERS.flatMap((name) => {
      const own = result.servers[name];
      return own ? [[name === "service" ? result.title : "", name, ...cells(name, own, result)]] : [];
    }),
  );
  return markdown([HEAD, ...rows]);
}

function cells(name: ServerName, own: Figures, { servers: { T }, toL }: Result): string[] {
  const shown = (value: number | undefined) => (name === "service" && value ? ratio(value) : "");
  return [
    whole(own.requestsPerSecond),
    milliseconds(own.p50),
    milliseconds(own.p99),
    whole(own.cpu),
    own.postgresCpu === null ? "" : whole(own.postgresCpu),
    shown(toL?.requestsPerSecond),
    shown(T && own.requestsPerSecond / T.requestsPerSecond),
    shown(toL?.cpu),
  ];
}

/** Rows as a Markdown table that also reads well as text; all but the first two columns are numbers. */
export function markdown(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: string[]) =>
    `| ${row.map((cell, column) => (column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(" | ")} |`;
  const [head = [], ...body] = rows;
  const rule = `|${widths.map((width, column) => "-".repeat(width + 1) + (column < 2 ? "-" : ":")).join("|")}|`;
  return [line(head), rule, ...body.map(line)].join("\n");
}
