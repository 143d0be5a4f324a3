import cluster, { type Worker } from "node:cluster";
import { keepCounts, type Metrics, type Sample } from "./metrics.js";

/** Milliseconds that a worker has for its answer; then what it said last counts. */
const PATIENCE_MS = 500;

interface Wanted {
  wanted: "metrics";
}

interface Answer {
  metrics: Sample;
}

/** Of a worker: tells the primary what was counted, when asked. */
export function answerPrimary(metrics: Metrics): void {
  process.on("message", async (message: Partial<Wanted>) => {
    if (message?.wanted === "metrics") await tellPrimary(metrics);
  });
}

/** Of a worker about to end: what it counted would be lost. */
export async function tellPrimary(metrics: Metrics): Promise<void> {
  const answer: Answer = { metrics: await metrics.read() };
  await new Promise((sent) => (process.send ? process.send(answer, undefined, undefined, sent) : sent(null)));
}

/**
 * Of the primary: gives the samples of all workers. Counts of workers that have ended stay in the sum, so that it
 * never goes down.
 */
export function watchWorkers(): () => Promise<Sample[]> {
  const latest = new Map<number, Sample>();
  const waiting = new Map<number, () => void>();
  let ended: Promise<Sample> = Promise.resolve([]);

  cluster.on("message", ({ id }: Worker, message: Partial<Answer>) => {
    if (!message?.metrics) return;
    latest.set(id, message.metrics);
    waiting.get(id)?.();
  });
  cluster.on("exit", ({ id }: Worker) => {
    const last = latest.get(id);
    latest.delete(id);
    waiting.get(id)?.();
    if (last) ended = ended.then((before) => keepCounts([before, last]));
  });

  const ask = (worker: Worker) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, PATIENCE_MS);
      waiting.set(worker.id, () => {
        clearTimeout(timer);
        resolve();
      });
      worker.send({ wanted: "metrics" } satisfies Wanted, () => {});
    });

  return async () => {
    const workers = Object.values(cluster.workers ?? {}).filter((worker) => worker?.isConnected());
    await Promise.all(workers.map((worker) => worker && ask(worker)));
    return [await ended, ...latest.values()];
  };
}
