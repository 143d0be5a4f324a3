import type { RequestHandler } from "express";
import {
  AggregatorRegistry,
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
} from "prom-client";
import { createCaller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";

/** What one process counted, in a form that goes from process to process. */
export type Sample = MetricObjectWithValues<MetricValue<string>>[];

/** What a process counts and measures. Labels are few and fixed: never a key, an id or an address. */
export interface Metrics {
  /** Counts and times every request by its operation and status. */
  observe: RequestHandler;
  onKeyLookUp(cached: boolean): void;
  /** A request was counted in memory because Redis is lost. */
  onFallback(): void;
  read(): Promise<Sample>;
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const PREFIX = "guest_forms_";

export function createMetrics({ db }: Services): Metrics {
  const registry = new Registry();
  const registers = [registry];
  // Event-loop lag, memory and garbage collection among them.
  collectDefaultMetrics({ register: registry });
  const requests = new Counter({
    name: `${PREFIX}requests_total`,
    help: "Requests answered, by operation and HTTP status",
    labelNames: ["operation", "status"],
    registers,
  });
  const seconds = new Histogram({
    name: `${PREFIX}request_seconds`,
    help: "Seconds from a request's arrival to the end of its answer, by operation",
    labelNames: ["operation"],
    buckets: SECONDS,
    registers,
  });
  new Gauge({
    name: `${PREFIX}pool_connections`,
    help: "Database connections that are busy or idle, and requests waiting for one",
    labelNames: ["state"],
    registers,
    collect() {
      this.set({ state: "busy" }, db.pool.totalCount - db.pool.idleCount);
      this.set({ state: "idle" }, db.pool.idleCount);
      this.set({ state: "waiting" }, db.pool.waitingCount);
    },
  });
  const keyLookUps = new Counter({
    name: `${PREFIX}key_look_ups_total`,
    help: "Look-ups of well-formed keys, by whether the process had the answer at hand (hit, miss)",
    labelNames: ["cache"],
    registers,
  });
  const refusals = new Counter({
    name: `${PREFIX}rate_limit_refusals_total`,
    help: "Requests refused with 429, by the limit they met (key, bad_key)",
    labelNames: ["limit"],
    registers,
  });
  const fallbacks = new Counter({
    name: `${PREFIX}rate_limit_fallbacks_total`,
    help: "Requests whose rate was counted in memory because Redis was lost",
    registers,
  });
  const replays = new Counter({
    name: `${PREFIX}replays_total`,
    help: "Creates answered with an earlier request's form",
    registers,
  });
  // A counter that is absent until it counts hides its first increase.
  for (const cache of ["hit", "miss"]) keyLookUps.inc({ cache }, 0);
  for (const limit of ["key", "bad_key"]) refusals.inc({ limit }, 0);
  return {
    observe(_req, res, next) {
      const began = performance.now();
      res.once("close", () => {
        const operation = res.locals.operation?.name ?? res.locals.called ?? "none";
        requests.inc({ operation, status: res.writableFinished ? res.statusCode : "aborted" });
        seconds.observe({ operation }, (performance.now() - began) / 1000);
        if (res.statusCode === 429) refusals.inc({ limit: res.locals.principal ? "key" : "bad_key" });
        if (res.hasHeader("Idempotent-Replayed")) replays.inc();
      });
      next();
    },
    onKeyLookUp: (cached) => keyLookUps.inc({ cache: cached ? "hit" : "miss" }),
    onFallback: () => fallbacks.inc(),
    read: () => registry.getMetricsAsJSON() as Promise<Sample>,
  };
}

/** What is the same for all processes: the notifications not sent yet. */
export async function readNotifications(services: Services): Promise<Sample> {
  const registry = new Registry();
  const gauge = new Gauge({
    name: `${PREFIX}notifications`,
    help: "Notifications not sent yet, by state",
    labelNames: ["state"],
    registers: [registry],
  });
  const { notifications } = createCaller(services, { kind: "operator" });
  // Without the database there is nothing to say, and all else to be told nevertheless.
  const counts = await notifications.count().catch(() => ({}));
  for (const [state, count] of Object.entries(counts)) gauge.set({ state }, count);
  return (await registry.getMetricsAsJSON()) as Sample;
}

/** Several samples as one: counters added up. */
export const merge = (samples: Sample[]): Registry => AggregatorRegistry.aggregate(samples);

/** What remains to be counted of a process that has ended. */
export async function keepCounts(samples: Sample[]): Promise<Sample> {
  const counted = samples.map((sample) =>
    sample.filter(({ type }) => String(type) === "counter" || String(type) === "histogram"),
  );
  return (await merge(counted).getMetricsAsJSON()) as Sample;
}
