import { setTimeout as sleep } from "node:timers/promises";

export interface RepeatOptions {
  signal: AbortSignal;
  /** Pause after a failure. */
  retryMs: number;
  /** Called with the first failure of a series. */
  onFailure(error: unknown): void;
}

/** Runs `work` until `signal` aborts, pausing after each run for the milliseconds it resolves to. */
export async function repeat(
  work: () => Promise<number>,
  { signal, retryMs, onFailure }: RepeatOptions,
): Promise<void> {
  let isFailing = false;
  while (!signal.aborted) {
    let pauseMs = retryMs;
    try {
      pauseMs = await work();
      isFailing = false;
    } catch (error) {
      if (!isFailing) onFailure(error);
      isFailing = true;
    }
    // Rejects when `signal` aborts.
    await sleep(pauseMs, undefined, { signal }).catch(() => {});
  }
}
