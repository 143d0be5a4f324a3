import { median } from "../support/statistics.js";
import { type Figures, medians, ratios, runRounds, runTurn, type Subject } from "./measure.js";
import type { Options } from "./options.js";
import { residentBytes } from "./process-usage.js";
import { markdownTable, progress } from "./report.js";
import { findOperation, type Session, withSessions } from "./session.js";

const SMALL_FORMS = 10_000;
/** Maximum factor by which the median latency may grow with the number of forms. */
const MAX_LATENCY_GROWTH = 1.5;
/** Maximum factor by which memory may grow from the second quarter of the load to the last. */
const MAX_MEMORY_GROWTH = 1.1;

/**
 * Measures latency by number of forms, and memory over time. Returns false if a median latency or the memory grows too much.
 */
export function measureGrowth(options: Options): Promise<boolean> {
  return withSessions([SMALL_FORMS, options.forms], async (sessions) => {
    const [small, large] = sessions as [Session, Session];
    const latencies = await measureLatencies(small, large, options);
    process.stdout.write(`${latencyTable(latencies, options)}\n\n`);
    const memory = await measureMemory(large, options);
    return latencies.every(isLatencyBounded) && isMemoryBounded(memory);
  });
}

interface Latency {
  id: string;
  small: Figures;
  large: Figures;
  /** The median latency with many forms, relative to that with few in the same round. */
  growth: number;
}

/** Measures both sizes in each round, so that the changing load of a shared machine cancels out. */
async function measureLatencies(small: Session, large: Session, options: Options): Promise<Latency[]> {
  const subjects = [await subjectsOf(small), await subjectsOf(large)];
  const latencies: Latency[] = [];
  for (const { id, title } of large.operations) {
    progress(`Measuring with ${SMALL_FORMS} and ${options.forms} forms: ${title} …`);
    const [few = [], many = []] = await runRounds(
      subjects.map((subject) => subject(id)),
      options,
    );
    latencies.push({ id, small: medians(few), large: medians(many), growth: ratios(many, few).p50 });
  }
  return latencies;
}

async function subjectsOf(session: Session): Promise<(id: string) => Subject> {
  const { database } = session;
  const server = await session.start("service");
  return (id) => ({ database, server, operation: findOperation(session, id) });
}

export const isLatencyBounded = ({ growth }: Pick<Latency, "growth">) => growth <= MAX_LATENCY_GROWTH;

function latencyTable(latencies: Latency[], { forms }: Options): string {
  const ms = (microseconds: number) => (microseconds / 1000).toFixed(2);
  const sizes = [SMALL_FORMS, forms].map((size) => `p50 ms, ${size.toLocaleString("en")} forms`);
  const rows = latencies.map((latency) => {
    const { id, small, large, growth } = latency;
    const verdict = isLatencyBounded(latency) ? "" : " MISSED";
    return [id, ms(small.p50), ms(large.p50), `${growth.toFixed(2)}${verdict}`, ms(large.postgresCpu)];
  });
  return markdownTable([["operation", ...sizes, "growth", "Postgres ms"], ...rows]);
}

const SLICE_SECONDS = 30;
const MIB = 2 ** 20;

const MINUTES = 20;

/** Measures the memory of the process in MiB every half minute of mixed load. */
async function measureMemory(session: Session, { connections }: Options): Promise<number[]> {
  const service = await session.start("service");
  const mixed = findOperation(session, "mixed");
  const slices: number[] = [];
  process.stdout.write("minutes of mixed load: memory of the process, MiB; requests/s\n");
  while (slices.length * SLICE_SECONDS < MINUTES * 60) {
    const load = { connections, seconds: SLICE_SECONDS };
    const { requestsPerSecond } = await runTurn(session.database, service, mixed, load);
    const residentMiB = Math.round(residentBytes(service.pid) / MIB);
    slices.push(residentMiB);
    const minutes = (slices.length * SLICE_SECONDS) / 60;
    process.stdout.write(`${minutes}: ${residentMiB}; ${requestsPerSecond.toFixed(0)}\n`);
  }
  await service.stop();
  process.stdout.write(
    `memory, last quarter ÷ second quarter: ${memoryGrowth(slices).toFixed(2)} (≤ ${MAX_MEMORY_GROWTH})\n`,
  );
  return slices;
}

export const isMemoryBounded = (slices: number[]) => memoryGrowth(slices) <= MAX_MEMORY_GROWTH;

/** Memory in the last quarter relative to the second; the first is warm-up. NaN with less than four slices. */
function memoryGrowth(slices: number[]): number {
  if (slices.length < 4) return Number.NaN;
  const quarter = slices.length / 4;
  const memory = (from: number) => median(slices.slice(Math.floor(from), Math.floor(from + quarter)));
  return memory(3 * quarter) / memory(quarter);
}
