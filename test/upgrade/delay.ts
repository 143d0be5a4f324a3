import { slowestMs } from "../support/http-client.js";
import { median } from "../support/statistics.js";

/** Milliseconds of the slowest request in each window of time. */
export interface SlowestRequests {
  upgrade: number[];
  /** The same processes without an upgrade, in as many windows. */
  quiet: number[];
}

/** How much longer requests may take because of the upgrade… */
const MAX_DELAY_MS = 500;
/** …unless they take as much longer without an upgrade: on a busy machine the slowest request differs by this factor. */
const MAX_RATIO = 2;

interface Sample {
  /** `performance.now()`. */
  sentAt: number;
  receivedAt: number;
}

/** Returns the duration of the slowest request that was sent in each whole window, and in what remains. */
export function slowestByWindow(
  samples: readonly Sample[],
  { begin, end, windowMs }: { begin: number; end: number; windowMs: number },
): number[] {
  const count = Math.max(1, Math.floor((end - begin) / windowMs));
  return Array.from({ length: count }, (_, n) => {
    const from = begin + n * windowMs;
    const until = n === count - 1 ? end : from + windowMs;
    return slowestMs(samples.filter(({ sentAt }) => sentAt >= from && sentAt < until));
  });
}

/**
 * Describes the delay that the upgrade adds, undefined if it is within its bounds. A single stall shows in the maximum,
 * requests that are slow all the time in the median.
 */
export function findDelay({ upgrade, quiet }: SlowestRequests): string | undefined {
  const statistics = { maximum: (values: number[]) => Math.max(...values), median };
  for (const [name, of] of Object.entries(statistics)) {
    const [own, usual] = [of(upgrade), of(quiet)];
    if (!(own < usual + MAX_DELAY_MS || own < usual * MAX_RATIO))
      return `The slowest request of a window takes ${Math.round(own)} ms in the upgrade, ${Math.round(usual)} ms without (${name}).`;
  }
  return undefined;
}
