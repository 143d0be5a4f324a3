import type { Result } from "./measure.js";
import { markdownTable } from "./report.js";

/** Minimum requests per second relative to L and to L+, and maximum p99 relative to L, in the same run. */
interface Target {
  L: number;
  "L+": number;
  p99: number;
}

// What four full runs on Node.js 24 have reached, rounded down, and less than the medians in gateway/docs/performance.md, which
// has the reasons for the distance. One measurement varies by up to 0.2, so one that misses is repeated (compare-servers.ts).
const LISTS: Target = { L: 0.75, "L+": 0.75, p99: 2.4 };
// tRPC and Express take most of the difference, and a fetch does little else.
const FETCHES: Target = { L: 0.65, "L+": 0.75, p99: 1.9 };
// Pages of which the database reads other rows each time vary more.
const LIVE: Target = { L: 0.7, "L+": 0.6, p99: 2.1 };
const TARGETS: Record<string, Target> = {
  "fetch-form": FETCHES,
  "fetch-listing": FETCHES,
  "listings-10": { ...LISTS, L: 0.7 },
  "list-new": LIVE,
  "live-hour": LIVE,
  "live-minutes": LIVE,
  "live-newest": LIVE,
  "live-beside": LIVE,
  "live-tail": LIVE,
  // Two round trips with eight statements. L needs one statement, because it has no second flow that writes forms.
  create: { L: 0.55, "L+": 0.6, p99: 1.7 },
  replay: { L: 0.6, "L+": 0.65, p99: 1.8 },
  // The creates among the lists are slower than L's, and the lists wait for them.
  mixed: { L: 0.65, "L+": 0.7, p99: 2.6 },
};

export const missesTarget = (result: Result): boolean => missedOf(result).length > 0;

/** Formats a Markdown table of the targets that were missed; undefined if there are none. */
export function missedTargets(results: readonly Result[]): string | undefined {
  const rows = results.map((result) => [result.title, missedOf(result).join("; ")]);
  const missed = rows.filter(([, targets]) => targets !== "");
  return missed.length === 0 ? undefined : markdownTable([["operation", "missed targets"], ...missed]);
}

/** Describes the targets that this operation missed. */
function missedOf({ id, relativeTo: { L, "L+": plus } }: Result): string[] {
  const format = (measured?: number) => measured?.toFixed(2) ?? "not measured";
  const atLeast = (what: string, measured: number | undefined, bound: number) =>
    Number(measured) >= bound ? [] : [`${what} ${format(measured)} (≥ ${bound})`];
  const atMost = (what: string, measured: number | undefined, bound: number) =>
    Number(measured) <= bound ? [] : [`${what} ${format(measured)} (≤ ${bound})`];
  const target = TARGETS[id] ?? LISTS;
  return [
    ...atLeast("requests/s ÷ L", L?.requestsPerSecond, target.L),
    ...atLeast("requests/s ÷ L+", plus?.requestsPerSecond, target["L+"]),
    ...atMost("p99 ÷ L", L?.p99, target.p99),
  ];
}
