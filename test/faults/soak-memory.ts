import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Service } from "./soak-services.js";

/** The memory of one process while it lived. */
export interface MemoryOfProcess {
  name: string;
  pid: number;
  seconds: number;
  /** Resident megabytes: at the end, and at most. */
  last: number;
  most: number;
  /**
   * After the warm-up, null where it did not live long enough to tell: megabytes a minute by least squares, and the
   * least that was resident in each quarter. Between two collections of V8 memory rises for minutes, and after a burst
   * of work it stays where that has left it: a leak makes each quarter's least rise above that of the one before.
   */
  trend: { slope: number; quarters: number[] } | null;
}

interface Sample {
  /** Seconds since the beginning. */
  at: number;
  megabytes: number;
}

const EVERY_MS = 2_000;
/** Before it, caches fill and V8 sizes its heap. */
const WARM_UP_SECONDS = 60;
/** A shorter time after it has no collection in each quarter. */
const LEAST_SECONDS = 480;

/** Watches the resident memory of services, process by process, until it is stopped. */
export class MemoryWatch {
  readonly #lives = new Map<number, { name: string; samples: Sample[] }>();
  readonly #timer: NodeJS.Timeout;
  readonly #began = performance.now();

  constructor(services: Service[]) {
    this.#timer = setInterval(() => void this.#look(services), EVERY_MS);
  }

  stop(): MemoryOfProcess[] {
    clearInterval(this.#timer);
    return [...this.#lives].map(([pid, { name, samples }]) => summary(name, pid, samples));
  }

  /** The newest megabytes of each service. */
  now(): Record<string, number> {
    return Object.fromEntries(
      [...this.#lives.values()].map(({ name, samples }) => [
        name,
        Math.round(samples.at(-1)?.megabytes ?? 0),
      ]),
    );
  }

  async #look(services: Service[]): Promise<void> {
    const named = new Map(services.flatMap(({ name, pid }) => (pid ? [[pid, name] as const] : [])));
    if (named.size === 0) return;
    const pids = [...named.keys()].join(",");
    // One that has just ended is not listed, and fails the command.
    const found = await promisify(execFile)("ps", ["-o", "pid=,rss=", "-p", pids]).catch(() => undefined);
    const at = (performance.now() - this.#began) / 1_000;
    for (const line of found?.stdout.trim().split("\n") ?? []) {
      const [pid = 0, kilobytes = 0] = line.trim().split(/\s+/).map(Number);
      const name = named.get(pid);
      if (!name) continue;
      const life = this.#lives.get(pid) ?? { name, samples: [] };
      life.samples.push({ at, megabytes: kilobytes / 1_024 });
      this.#lives.set(pid, life);
    }
  }
}

function summary(name: string, pid: number, samples: Sample[]): MemoryOfProcess {
  const began = samples[0]?.at ?? 0;
  const seconds = (samples.at(-1)?.at ?? 0) - began;
  const sizes = samples.map(({ megabytes }) => megabytes);
  return {
    name,
    pid,
    seconds: Math.round(seconds),
    last: rounded(sizes.at(-1) ?? 0),
    most: rounded(Math.max(...sizes)),
    trend:
      seconds < WARM_UP_SECONDS + LEAST_SECONDS
        ? null
        : trendOf(samples.filter(({ at }) => at >= began + WARM_UP_SECONDS)),
  };
}

function trendOf(samples: Sample[]): MemoryOfProcess["trend"] {
  const quarter = (index: number) => Math.floor((samples.length * index) / 4);
  const least = (some: Sample[]) => rounded(Math.min(...some.map(({ megabytes }) => megabytes)));
  return {
    slope: rounded(slopeOf(samples) * 60),
    quarters: [0, 1, 2, 3].map((index) => least(samples.slice(quarter(index), quarter(index + 1)))),
  };
}

/** How far the least may rise in a process that leaks nothing: in each quarter, and in all. */
const MAX_RISE = 1.02;
const MAX_RISE_IN_ALL = 2;

/** Whether a process keeps more and more. */
export function isGrowing({ trend }: MemoryOfProcess): boolean {
  const { quarters = [] } = trend ?? {};
  const [first = 0] = quarters;
  const rises = quarters.slice(1).map((least, index) => least / (quarters[index] ?? least));
  return (
    rises.length > 0 &&
    (rises.every((rise) => rise > MAX_RISE) || (quarters.at(-1) ?? 0) > first * MAX_RISE_IN_ALL)
  );
}

const rounded = (value: number) => Math.round(value * 100) / 100;

/** Megabytes a second, by least squares. */
function slopeOf(samples: Sample[]): number {
  const middle = (of: (sample: Sample) => number) =>
    samples.reduce((sum, sample) => sum + of(sample), 0) / samples.length;
  const at = middle((sample) => sample.at);
  const size = middle((sample) => sample.megabytes);
  const above = samples.reduce((sum, one) => sum + (one.at - at) * (one.megabytes - size), 0);
  const below = samples.reduce((sum, one) => sum + (one.at - at) ** 2, 0);
  return below === 0 ? 0 : above / below;
}
