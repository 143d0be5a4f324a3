import type { Result } from "./measure.js";
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

interface Check {
  title: string;
  what: string;
  measured: number | undefined;
  bound: number;
  isMinimum: boolean;
}

/** The targets of the operations that were measured. */
function checksOf(results: readonly Result[]): Check[] {
  const old = results.find(({ id }) => id === OLD)?.servers.service;
  return results.flatMap(({ id, title, servers, relativeTo }) => {
    const { service } = servers;
    const atLeast = (what: string, measured: number | undefined, bound: number): Check => ({
      ...{ title, what, measured, bound, isMinimum: true },
    });
    const atMost = (what: string, measured: number | undefined, bound: number): Check => ({
      ...{ title, what, measured, bound, isMinimum: false },
    });
    const minimum = THROUGHPUT_OF[id] ?? THROUGHPUT;
    const throughput = (peer: keyof Throughput) =>
      atLeast(`requests/s ÷ ${peer}`, relativeTo[peer]?.requestsPerSecond, minimum[peer]);
    return [
      throughput("L"),
      throughput("L+"),
      atMost("p99 ÷ L", relativeTo.L?.p99, MAX_P99),
      atMost("p99.9 ÷ L", relativeTo.L?.p999, MAX_P999),
      ...(LIVE.includes(id) && old && service
        ? [atLeast("requests/s ÷ old data", service.requestsPerSecond / old.requestsPerSecond, MIN_LIVE)]
        : []),
    ];
  });
}

const isMet = ({ measured = Number.NaN, bound, isMinimum }: Check) =>
  isMinimum ? measured >= bound : measured <= bound;

/** Formats a Markdown table of the targets that were missed; undefined if there are none. */
export function missedTargets(results: readonly Result[]): string | undefined {
  const missed = checksOf(results).filter((check) => !isMet(check));
  if (missed.length === 0) return undefined;
  const titles = [...new Set(missed.map(({ title }) => title))];
  const rows = titles.map((title) => {
    const own = missed.filter((check) => check.title === title);
    return [title, own.map(describe).join("; ")];
  });
  return markdownTable([["operation", "missed targets"], ...rows]);
}

const describe = ({ what, measured, bound, isMinimum }: Check) =>
  `${what} ${measured?.toFixed(2) ?? "not measured"} (${isMinimum ? "≥" : "≤"} ${bound})`;
