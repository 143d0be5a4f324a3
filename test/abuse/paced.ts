import { setTimeout as sleep } from "node:timers/promises";

export interface Paced {
  /** Milliseconds from when each request was due until its answer was there. */
  times: number[];
  statuses: Map<number | string, number>;
}

/**
 * Sends requests at a fixed rate, whatever becomes of those before, until told to stop. Each is timed from when it was
 * due, so that a stalled service cannot hide behind requests that were sent late.
 */
export function startPaced(perSecond: number, send: () => Promise<{ status: number }>) {
  const paced: Paced = { times: [], statuses: new Map() };
  const count = (status: number | string) =>
    paced.statuses.set(status, (paced.statuses.get(status) ?? 0) + 1);
  const underWay = new Set<Promise<void>>();
  let stopped = false;
  const began = performance.now();
  const one = async (due: number) => {
    try {
      count((await send()).status);
    } catch (error) {
      count((error as Error).message);
    }
    paced.times.push(performance.now() - due);
  };
  const running = (async () => {
    for (let n = 0; !stopped; n++) {
      const due = began + (n * 1000) / perSecond;
      await sleep(Math.max(0, due - performance.now()));
      const request = one(due).finally(() => underWay.delete(request));
      underWay.add(request);
    }
    await Promise.all(underWay);
  })();
  return {
    async stop(): Promise<Paced> {
      stopped = true;
      await running;
      return paced;
    },
  };
}
