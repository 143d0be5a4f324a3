import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { packageRoot } from "../../prisma/package-root.js";

/** A line of `memory-probe.mjs`. */
export interface MemorySample {
  /** Since the process started. */
  seconds: number;
  /** Memory in use after a garbage collection. */
  heapBytes: number;
  rssBytes: number;
}

/** Environment variables of a process whose memory is written to `file`. */
export const memoryProbeEnv = (file: string) => ({
  NODE_OPTIONS: `--import ${pathToFileURL(join(packageRoot(), "test/load/memory-probe.mjs")).href}`,
  MEMORY_LOG: file,
});

export const readSamples = async (file: string): Promise<MemorySample[]> =>
  (await readFile(file, "utf8"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

export interface MemoryVerdict {
  verdict: "steady" | "leaks" | "too short to judge";
  /** After the warm-up: the minimum of each quarter. */
  heapMb: number[];
  rssMb: number[];
}

/**
 * During the warm-up, caches fill and V8 compiles. Under faults this goes on for longer than a soak, ever more slowly: a
 * gateway's heap grows from 48.5 to 51 MB in 10 minutes, mostly by optimized code, and by the last 100 database errors,
 * which `@prisma/debug` keeps with their connections. So the warm-up of a long soak is longer.
 */
const MIN_WARM_UP_SECONDS = 60;
const WARM_UP_SHARE = 1 / 4;
/** Quarters of 27 s, in which several samples have no request in flight. */
const MIN_JUDGED_SECONDS = 110;
/** In this time, the memory of a process can be judged. */
export const MIN_SOAK_MINUTES = 3;

/** Largest growth factor of the heap's minimum from one quarter to the next in a process that does not leak. */
const MAX_HEAP_GROWTH = 1.01;
/**
 * Largest growth of the resident memory's minimum from the first quarter to the last in a process that does not leak.
 * The resident memory of a worker with a flat heap is a sawtooth between 90 and 117 MB, whose rising part can be longer
 * than a soak of 3 minutes. A leak outside the heap that is smaller than this is not found.
 */
const MAX_RSS_GROWTH_MB = 30;
/** Largest growth factor of either minimum from the first quarter to the last, even if one quarter has no growth. */
const MAX_TOTAL_GROWTH = 1.5;

/**
 * Judges by the minimum of each quarter: memory rises under load and stays high after a burst of work, but only a leak
 * raises the minimum in every quarter.
 */
export function judgeMemory(samples: MemorySample[]): MemoryVerdict {
  const warmUp = Math.max(MIN_WARM_UP_SECONDS, WARM_UP_SHARE * (samples.at(-1)?.seconds ?? 0));
  const judged = samples.filter(({ seconds }) => seconds >= warmUp);
  const [from = 0, to = 0] = [judged[0]?.seconds, judged.at(-1)?.seconds];
  const minimaMb = (name: "heapBytes" | "rssBytes") =>
    [0, 1, 2, 3].map((quarter) => {
      const start = from + ((to - from) * quarter) / 4;
      const within = judged.filter(({ seconds }) => seconds >= start && seconds <= start + (to - from) / 4);
      return Math.min(...within.map((sample) => sample[name])) / 2 ** 20;
    });
  const [heapMb, rssMb] = [minimaMb("heapBytes"), minimaMb("rssBytes")];
  const isTooShort = to - from < MIN_JUDGED_SECONDS || !heapMb.every(Number.isFinite);
  const isLeaking =
    [heapMb, rssMb].some((minima) => growth(minima).factor > MAX_TOTAL_GROWTH) ||
    growsInEveryQuarter(heapMb, MAX_HEAP_GROWTH) ||
    (growsInEveryQuarter(rssMb) && growth(rssMb).mb > MAX_RSS_GROWTH_MB);
  return { verdict: isTooShort ? "too short to judge" : isLeaking ? "leaks" : "steady", heapMb, rssMb };
}

const growsInEveryQuarter = (minima: number[], factor = 1) =>
  minima.slice(1).every((minimum, index) => minimum > (minima[index] ?? 0) * factor);

/** From the first quarter to the last. */
function growth(minima: number[]) {
  const [first, last] = [Number(minima[0]), Number(minima.at(-1))];
  return { mb: last - first, factor: last / first };
}
