import type { Result } from "./measure.js";
import { markdown } from "./report.js";

/** What the service must reach beside L in the same run. */
interface Target {
  operations: string[];
  /** Least requests per second, as a share of L's. */
  speed: number;
}

const TARGETS: readonly Target[] = [
  { operations: ["fetch-form", "fetch-listing"], speed: 0.7 },
  { operations: ["list-1", "list-10", "list-1000", "list-10000", "list-new"], speed: 0.7 },
  { operations: ["deep-1000", "deep-10000", "live-pages", "live-newest"], speed: 0.7 },
  { operations: ["listings-10", "listings-10000"], speed: 0.65 },
  { operations: ["create"], speed: 0.7 },
];

/** Highest p99 of any operation, as a multiple of L's. */
const P99 = 2.5;

const HEAD = ["operation", "held", "requests/s ÷ L", "p99 ÷ L"];

/** Each target that was measured, beside what was reached, as a Markdown table. */
export function targetTable(results: readonly Result[]): string {
  const rows = results.flatMap((result) => {
    const target = TARGETS.find(({ operations }) => operations.includes(result.id));
    return target ? [judge(result, target)] : [];
  });
  return markdown([HEAD, ...rows]);
}

function judge({ title, toL }: Result, { speed }: Target): string[] {
  if (!toL) return [title, "not measured", "", ""];
  const [isFast, isSteady] = [toL.requestsPerSecond >= speed, toL.p99 <= P99];
  return [
    title,
    isFast && isSteady ? "yes" : "NO",
    `${toL.requestsPerSecond.toFixed(2)} (≥ ${speed})${isFast ? "" : " missed"}`,
    `${toL.p99.toFixed(2)} (≤ ${P99})${isSteady ? "" : " missed"}`,
  ];
}
