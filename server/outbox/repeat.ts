import { setTimeout as sleep } from "node:timers/promises";

export interface RepeatOptions {
  signal: AbortSignal;
  retryMs: number;
  /** Called with the first of consecutive failures. */
  onFailure(error: unknown): void;
}

/** Runs `work` repeatedly until `signal` aborts. `work` resolves to the pause before the next run, in milliseconds. */
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
