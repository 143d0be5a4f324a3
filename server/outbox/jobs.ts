import type { Log, Services } from "../access/context.js";
import type { ActivityCounts } from "./activity.js";
import { repeat } from "./repeat.js";

/** The pause after a run is at least ten times as long as the run, up to a minute: a slow database gets more time. */
const PAUSE_FACTOR = 10;
const MAX_LONGER_PAUSE_MS = 60_000;

export type JobDeps = Services & { counts: ActivityCounts };

/** What a worker does at intervals. */
export interface Job {
  everyMs: number;
  /** Pause after a failure. */
  retryMs: number;
  run(deps: JobDeps, log: Log, signal: AbortSignal): Promise<void>;
  /** Called with the first of consecutive failures. */
  onFailure(error: unknown, log: Log): void;
}

/** Runs the job until `signal` aborts. */
export function runJob({ everyMs, retryMs, ...job }: Job, deps: JobDeps, log: Log, signal: AbortSignal): Promise<void> {
  const work = async () => {
    const began = performance.now();
    await job.run(deps, log, signal);
    return Math.max(everyMs, Math.min((performance.now() - began) * PAUSE_FACTOR, MAX_LONGER_PAUSE_MS));
  };
  return repeat(work, { signal, retryMs, onFailure: (error) => job.onFailure(error, log) });
}
