import { createRequire } from "node:module";
import type { RequestHandler } from "express";
import type { Pool } from "pg";
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
import type { Failure } from "../../server/failures.js";

/** What one process counted, in a form that goes from process to process. */
export type Sample = MetricObjectWithValues<MetricValue<string>>[];

/** What a process counts and measures. Labels are few and fixed: never a key, an id or an address. */
export interface Metrics {
  /** Counts and times every request by its operation and status. */
  observe: RequestHandler;
  onKeyLookUp(cached: boolean): void;
  /** A request was counted in memory because Redis is lost. */
  onFallback(): void;
  onDatabaseError(failure: Failure): void;
  /** From now on the connections of this pool are reported. */
  watchPool(pool: Pool): void;
  read(): Promise<Sample>;
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
export const PREFIX = "guest_forms_";
const FAILURES: readonly Failure[] = ["conflict", "unavailable", "fault"];
const { version: VERSION } = createRequire(import.meta.url)("guest-forms/package.json");

export function createMetrics(): Metrics {
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
  // The same of all processes, so the first one's is taken instead of the sum.
  new Gauge({
    name: `${PREFIX}build_info`,
    help: "The version of the service and of Node.js; always 1",
    labelNames: ["version", "node"],
    aggregator: "first",
    registers,
  }).set({ version: VERSION, node: process.version }, 1);
  const databaseErrors = new Counter({
    name: `${PREFIX}database_errors_total`,
    help: "Statements and transactions that failed, by class (conflict, unavailable, fault)",
    labelNames: ["class"],
    registers,
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
  for (const failure of FAILURES) databaseErrors.inc({ class: failure }, 0);
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
    onDatabaseError: (failure) => databaseErrors.inc({ class: failure }),
    watchPool(pool) {
      new Gauge({
        name: `${PREFIX}pool_connections`,
        help: "Database connections that are busy or idle, and requests waiting for one",
        labelNames: ["state"],
        registers,
        collect() {
          this.set({ state: "busy" }, pool.totalCount - pool.idleCount);
          this.set({ state: "idle" }, pool.idleCount);
          this.set({ state: "waiting" }, pool.waitingCount);
        },
      });
    },
    read: () => registry.getMetricsAsJSON() as Promise<Sample>,
  };
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
