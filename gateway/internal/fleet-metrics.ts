import cluster, { type Worker } from "node:cluster";
import { Counter, Registry } from "prom-client";
import { type Metrics, type MetricsSnapshot, PREFIX, sumCounters } from "./metrics.js";

/** Time a worker has to respond to a scrape. Then its last snapshot is used. */
const WORKER_TIMEOUT_MS = 500;

// Messages between primary and workers. Keep them compatible: see process/cluster.ts.
interface MetricsRequest {
  wanted: "metrics";
}

interface MetricsResponse {
  metrics: MetricsSnapshot;
}

/** Runs in a worker: responds to the primary's requests for metrics. */
export function answerMetricsRequests(metrics: Metrics): void {
  process.on("message", async (message: Partial<MetricsRequest>) => {
    if (message?.wanted === "metrics") await sendMetricsToPrimary(metrics);
  });
}

/** Runs in a worker. Also called before the worker exits, because its counts would be lost. */
export async function sendMetricsToPrimary(metrics: Metrics): Promise<void> {
  const response: MetricsResponse = { metrics: await metrics.read() };
  await new Promise((sent) =>
    process.send ? process.send(response, undefined, undefined, sent) : sent(null),
  );
}

/**
 * Runs in the primary: returns a function that reads the snapshots of all workers, and the number of crashes. Includes the
 * counts of workers that have ended, so that a counter never goes down.
 */
export function collectWorkerMetrics(): () => Promise<MetricsSnapshot[]> {
  const latest = new Map<number, MetricsSnapshot>();
  const waiting = new Map<number, () => void>();
  let ended: Promise<MetricsSnapshot> = Promise.resolve([]);
  const registry = new Registry();
  const crashes = new Counter({
    name: `${PREFIX}process_crashes_total`,
    help: "Processes of --workers that exited with an error or were killed",
    registers: [registry],
  });

  cluster.on("message", ({ id }: Worker, message: Partial<MetricsResponse>) => {
    if (!message?.metrics) return;
    latest.set(id, message.metrics);
    waiting.get(id)?.();
  });
  cluster.on("exit", ({ id }: Worker, code: number | null) => {
    // Null if a signal killed it.
    if (code !== 0) crashes.inc();
    const last = latest.get(id);
    latest.delete(id);
    waiting.get(id)?.();
    if (last) ended = ended.then((before) => sumCounters([before, last]));
  });

  const requestMetrics = (worker: Worker) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, WORKER_TIMEOUT_MS);
      waiting.set(worker.id, () => {
        clearTimeout(timer);
        resolve();
      });
      worker.send({ wanted: "metrics" } satisfies MetricsRequest, () => {});
    });

  return async () => {
    const workers = Object.values(cluster.workers ?? {}).filter((worker) => worker?.isConnected());
    await Promise.all(workers.map((worker) => worker && requestMetrics(worker)));
    return [await registry.getMetricsAsJSON(), await ended, ...latest.values()];
  };
}
