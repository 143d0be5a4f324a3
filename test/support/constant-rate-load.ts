import { setTimeout as sleep } from "node:timers/promises";

/** From when until when something lasted, by `performance.now()`. */
export interface Span {
  from: number;
  to: number;
}

export const durationsOf = (spans: readonly Span[]): number[] => spans.map(({ from, to }) => to - from);

export interface LoadResult {
  /** Each request, from its scheduled start to its response. */
  requests: Span[];
  /** Responses by status, and errors by message. */
  outcomes: Map<number | string, number>;
}

/**
 * Sends requests at a constant rate until stopped, without waiting for responses. Each is timed from its scheduled
 * start, to avoid coordinated omission: a stalled service does not delay the schedule.
 */
export function startConstantRateLoad(perSecond: number, send: () => Promise<{ status: number }>) {
  const result: LoadResult = { requests: [], outcomes: new Map() };
  const count = (outcome: number | string) => result.outcomes.set(outcome, (result.outcomes.get(outcome) ?? 0) + 1);
  const inFlight = new Set<Promise<void>>();
  let isStopped = false;
  const began = performance.now();
  const sendOne = async (dueAt: number) => {
    try {
      count((await send()).status);
    } catch (error) {
      count((error as Error).message);
    }
    result.requests.push({ from: dueAt, to: performance.now() });
  };
  const running = (async () => {
    for (let n = 0; !isStopped; n++) {
      const dueAt = began + (n * 1000) / perSecond;
      await sleep(Math.max(0, dueAt - performance.now()));
      const request = sendOne(dueAt).finally(() => inFlight.delete(request));
      inFlight.add(request);
    }
    await Promise.all(inFlight);
  })();
  return {
    async stop(): Promise<LoadResult> {
      isStopped = true;
      await running;
      return result;
    },
  };
}
