import type { Result } from "./measure.js";
import { markdownTable } from "./report.js";

/** Required performance of the service relative to L in the same run. */
interface Target {
  operations: string[];
  /** Minimum requests per second, relative to L. */
  minThroughput: number;
}

const TARGETS: readonly Target[] = [
  { operations: ["fetch-form", "fetch-listing"], minThroughput: 0.7 },
  { operations: ["list-1", "list-10", "list-1000", "list-10000", "list-new"], minThroughput: 0.7 },
  { operations: ["deep-1000", "deep-10000", "live-pages", "live-newest"], minThroughput: 0.7 },
  { operations: ["listings-10", "listings-10000"], minThroughput: 0.65 },
  { operations: ["create"], minThroughput: 0.7 },
];

/** Maximum p99 of every operation, relative to L. */
const MAX_P99 = 2.5;

const HEAD = ["operation", "met", "requests/s ÷ L", "p99 ÷ L"];

/** Formats a Markdown table of the measured targets and whether they were met. */
export function targetTable(results: readonly Result[]): string {
  const rows = results.flatMap((result) => {
    const target = TARGETS.find(({ operations }) => operations.includes(result.id));
    return target ? [checkTarget(result, target)] : [];
  });
  return markdownTable([HEAD, ...rows]);
}

function checkTarget({ title, relativeToL }: Result, { minThroughput }: Target): string[] {
  if (!relativeToL) return [title, "not measured", "", ""];
  const [isThroughputMet, isP99Met] = [
    relativeToL.requestsPerSecond >= minThroughput,
    relativeToL.p99 <= MAX_P99,
  ];
  return [
    title,
    isThroughputMet && isP99Met ? "yes" : "NO",
    `${relativeToL.requestsPerSecond.toFixed(2)} (≥ ${minThroughput})${isThroughputMet ? "" : " missed"}`,
    `${relativeToL.p99.toFixed(2)} (≤ ${MAX_P99})${isP99Met ? "" : " missed"}`,
  ];
}
