import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { ManagedProcess } from "./soak-processes.js";

/** The memory of one process during its lifetime. */
export interface ProcessMemory {
  name: string;
  pid: number;
  seconds: number;
  /** Resident memory in MB: the last sample and the maximum. */
  lastMb: number;
  maxMb: number;
  /**
   * Growth after the warm-up; null if the process did not live long enough. `mbPerMinute` is the slope of a least-squares
   * fit, `quarterMinimaMb` the minimum of each quarter. The minima show a leak: between garbage collections memory rises
   * for minutes, and after a burst of work it stays high, but only a leak raises the minimum in every quarter.
   */
  trend: { mbPerMinute: number; quarterMinimaMb: number[] } | null;
}

interface Sample {
  /** Seconds since the watch started. */
  at: number;
  mb: number;
}

const SAMPLE_INTERVAL_MS = 2_000;
/** During the warm-up, caches fill and V8 sizes its heap. */
const WARM_UP_SECONDS = 60;
/** In a shorter time, some quarter may have no garbage collection. */
const MIN_TREND_SECONDS = 480;

/** Samples the resident memory of each process until stopped. */
export class MemoryWatch {
  readonly #processes = new Map<number, { name: string; samples: Sample[] }>();
  readonly #timer: NodeJS.Timeout;
  readonly #began = performance.now();

  constructor(processes: ManagedProcess[]) {
    this.#timer = setInterval(() => void this.#sample(processes), SAMPLE_INTERVAL_MS);
  }

  stop(): ProcessMemory[] {
    clearInterval(this.#timer);
    return [...this.#processes].map(([pid, { name, samples }]) => summarize(name, pid, samples));
  }

  /** The latest sample of each process, in MB. */
  latestMb(): Record<string, number> {
    return Object.fromEntries(
      [...this.#processes.values()].map(({ name, samples }) => [name, Math.round(samples.at(-1)?.mb ?? 0)]),
    );
  }

  async #sample(processes: ManagedProcess[]): Promise<void> {
    const names = new Map(processes.flatMap(({ name, pid }) => (pid ? [[pid, name] as const] : [])));
    if (names.size === 0) return;
    const pids = [...names.keys()].join(",");
    // ps fails if a process has just exited.
    const result = await promisify(execFile)("ps", ["-o", "pid=,rss=", "-p", pids]).catch(() => undefined);
    const at = (performance.now() - this.#began) / 1_000;
    for (const line of result?.stdout.trim().split("\n") ?? []) {
      const [pid = 0, kilobytes = 0] = line.trim().split(/\s+/).map(Number);
      const name = names.get(pid);
      if (!name) continue;
      const memory = this.#processes.get(pid) ?? { name, samples: [] };
      memory.samples.push({ at, mb: kilobytes / 1_024 });
      this.#processes.set(pid, memory);
    }
  }
}

function summarize(name: string, pid: number, samples: Sample[]): ProcessMemory {
  const began = samples[0]?.at ?? 0;
  const seconds = (samples.at(-1)?.at ?? 0) - began;
  const sizes = samples.map(({ mb }) => mb);
  return {
    name,
    pid,
    seconds: Math.round(seconds),
    lastMb: rounded(sizes.at(-1) ?? 0),
    maxMb: rounded(Math.max(...sizes)),
    trend:
      seconds < WARM_UP_SECONDS + MIN_TREND_SECONDS
        ? null
        : trendOf(samples.filter(({ at }) => at >= began + WARM_UP_SECONDS)),
  };
}

function trendOf(samples: Sample[]): ProcessMemory["trend"] {
  const quarter = (index: number) => Math.floor((samples.length * index) / 4);
  const minimum = (some: Sample[]) => rounded(Math.min(...some.map(({ mb }) => mb)));
  return {
    mbPerMinute: rounded(slopeOf(samples) * 60),
    quarterMinimaMb: [0, 1, 2, 3].map((index) => minimum(samples.slice(quarter(index), quarter(index + 1)))),
  };
}

/** Largest growth factors of the minimum without a leak: per quarter, and in total. */
const MAX_QUARTER_GROWTH = 1.02;
const MAX_TOTAL_GROWTH = 2;

/** Whether the memory of a process grows like a leak. */
export function isLeaking({ trend }: ProcessMemory): boolean {
  const minima = trend?.quarterMinimaMb ?? [];
  const [first = 0] = minima;
  const growth = minima.slice(1).map((minimum, index) => minimum / (minima[index] ?? minimum));
  return (
    growth.length > 0 &&
    (growth.every((factor) => factor > MAX_QUARTER_GROWTH) || (minima.at(-1) ?? 0) > first * MAX_TOTAL_GROWTH)
  );
}

const rounded = (value: number) => Math.round(value * 100) / 100;

/** Growth in MB per second, by least squares. */
function slopeOf(samples: Sample[]): number {
  const mean = (of: (sample: Sample) => number) =>
    samples.reduce((sum, sample) => sum + of(sample), 0) / samples.length;
  const at = mean((sample) => sample.at);
  const size = mean((sample) => sample.mb);
  const above = samples.reduce((sum, one) => sum + (one.at - at) * (one.mb - size), 0);
  const below = samples.reduce((sum, one) => sum + (one.at - at) ** 2, 0);
  return below === 0 ? 0 : above / below;
}
