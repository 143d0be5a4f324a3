import type { Result } from "./measure.js";
import { markdown } from "./report.js";

/** What the service is to reach beside the peers in the same run. */
interface Target {
  operations: string[];
  /** Least requests a second, as a share of L's. */
  speed: number;
  /** Most processor time a request, as a multiple of L's. */
  cpu: number;
  /** Least requests a second, as a multiple of T's. */
  againstT: number;
}

const TARGETS: readonly Target[] = [
  { operations: ["fetch-form"], speed: 0.55, cpu: 2.8, againstT: 3 },
  { operations: ["list-1", "list-10", "list-10000"], speed: 0.95, cpu: 1.2, againstT: 3 },
  { operations: ["list-1000", "list-new"], speed: 0.95, cpu: 1.3, againstT: 1.8 },
  { operations: ["deep-1000", "deep-10000"], speed: 0.95, cpu: 1.3, againstT: 50 },
  { operations: ["listings-10", "listings-10000", "fetch-listing"], speed: 0.65, cpu: 2.2, againstT: 2 },
  { operations: ["create"], speed: 0.4, cpu: 3, againstT: 1.5 },
];

const HEAD = ["operation", "held", "requests/s to L", "CPU to L", "requests/s to T"];

/** Each target that was measured, beside what was reached, as a Markdown table. */
export function targetTable(results: readonly Result[]): string {
  const rows = results.flatMap((result) => {
    const target = TARGETS.find(({ operations }) => operations.includes(result.id));
    return target ? [judge(result, target)] : [];
  });
  return markdown([HEAD, ...rows]);
}

function judge({ title, servers, toL }: Result, target: Target): string[] {
  const { service, T } = servers;
  if (!service || !T || !toL) return [title, "not measured", "", "", ""];
  const { requestsPerSecond: speed, cpu } = toL;
  const againstT = service.requestsPerSecond / T.requestsPerSecond;
  const held = [speed >= target.speed, cpu <= target.cpu, againstT >= target.againstT];
  const mark = (index: number) => (held[index] ? "" : " missed");
  return [
    title,
    held.every(Boolean) ? "yes" : "NO",
    `${speed.toFixed(2)} (≥ ${target.speed})${mark(0)}`,
    `${cpu.toFixed(2)} (≤ ${target.cpu})${mark(1)}`,
    `${againstT.toFixed(againstT < 10 ? 1 : 0)} (≥ ${target.againstT})${mark(2)}`,
  ];
}
