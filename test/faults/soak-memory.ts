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
  NODE_OPTIONS: `--import ${pathToFileURL(join(packageRoot(), "test/faults/memory-probe.mjs")).href}`,
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

/** During the warm-up, caches fill and V8 compiles. */
const WARM_UP_SECONDS = 60;
/** Quarters of 27 s, in which several samples have no request in flight. */
const MIN_JUDGED_SECONDS = 110;
/** In this time, the memory of a process can be judged. */
export const MIN_SOAK_MINUTES = 3;

/** Largest growth factors of the minimum from one quarter to the next in a process that does not leak. */
const MAX_HEAP_GROWTH = 1.01;
const MAX_RSS_GROWTH = 1.02;
/** Largest growth factor from the first quarter to the last. */
const MAX_TOTAL_GROWTH = 1.5;

/**
 * Judges by the minimum of each quarter: memory rises under load and stays high after a burst of work, but only a leak
 * raises the minimum in every quarter.
 */
export function judgeMemory(samples: MemorySample[]): MemoryVerdict {
  const judged = samples.filter(({ seconds }) => seconds >= WARM_UP_SECONDS);
  const [from = 0, to = 0] = [judged[0]?.seconds, judged.at(-1)?.seconds];
  const minimaMb = (name: "heapBytes" | "rssBytes") =>
    [0, 1, 2, 3].map((quarter) => {
      const start = from + ((to - from) * quarter) / 4;
      const within = judged.filter(({ seconds }) => seconds >= start && seconds <= start + (to - from) / 4);
      return Math.min(...within.map((sample) => sample[name])) / 2 ** 20;
    });
  const [heapMb, rssMb] = [minimaMb("heapBytes"), minimaMb("rssBytes")];
  const isTooShort = to - from < MIN_JUDGED_SECONDS || !heapMb.every(Number.isFinite);
  const isLeaking = grows(heapMb, MAX_HEAP_GROWTH) || grows(rssMb, MAX_RSS_GROWTH);
  return { verdict: isTooShort ? "too short to judge" : isLeaking ? "leaks" : "steady", heapMb, rssMb };
}

const grows = (minima: number[], factor: number) =>
  Number(minima.at(-1)) > Number(minima[0]) * MAX_TOTAL_GROWTH ||
  minima.slice(1).every((minimum, index) => minimum > (minima[index] ?? 0) * factor);
