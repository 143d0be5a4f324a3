import type { Figures, Result } from "./measure.js";
import { markdownTable } from "./report.js";

interface Throughput {
  L: number;
  "L+": number;
}

/** Minimum requests per second, relative to L and to L+ in the same run. */
const THROUGHPUT: Throughput = { L: 0.8, "L+": 0.95 };
const THROUGHPUT_OF: Record<string, Throughput> = {
  "fetch-form": { L: 0.85, "L+": 1 },
  "fetch-listing": { L: 0.85, "L+": 1 },
  create: { L: 0.85, "L+": 1 },
  replay: { L: 0.85, "L+": 0.95 },
};

/** Maximum latency of every operation, relative to L. */
const MAX_P99 = 1.5;
const MAX_P999 = 2;
/** Minimum requests per second for lists of live data, relative to old data. */
const MIN_LIVE = 0.95;
const LIVE = ["live-hour", "live-minutes"];
const OLD = "list-10";

/** Formats a Markdown table of the targets that were missed; undefined if there are none. */
export function missedTargets(results: readonly Result[]): string | undefined {
  const old = results.find(({ id }) => id === OLD)?.servers.service;
  const rows = results.map((result) => [result.title, missedOf(result, old).join("; ")]);
  const missed = rows.filter(([, targets]) => targets !== "");
  return missed.length === 0 ? undefined : markdownTable([["operation", "missed targets"], ...missed]);
}

/** Describes the targets that this operation missed. */
function missedOf({ id, servers: { service }, relativeTo: { L, "L+": plus } }: Result, old?: Figures): string[] {
  const format = (measured?: number) => measured?.toFixed(2) ?? "not measured";
  const atLeast = (what: string, measured: number | undefined, bound: number) =>
    Number(measured) >= bound ? [] : [`${what} ${format(measured)} (≥ ${bound})`];
  const atMost = (what: string, measured: number | undefined, bound: number) =>
    Number(measured) <= bound ? [] : [`${what} ${format(measured)} (≤ ${bound})`];
  const minimum = THROUGHPUT_OF[id] ?? THROUGHPUT;
  return [
    ...atLeast("requests/s ÷ L", L?.requestsPerSecond, minimum.L),
    ...atLeast("requests/s ÷ L+", plus?.requestsPerSecond, minimum["L+"]),
    ...atMost("p99 ÷ L", L?.p99, MAX_P99),
    ...atMost("p99.9 ÷ L", L?.p999, MAX_P999),
    ...(LIVE.includes(id) && old && service
      ? atLeast("requests/s ÷ old data", service.requestsPerSecond / old.requestsPerSecond, MIN_LIVE)
      : []),
  ];
}
