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
import type { HolderLimit } from "../../server/holder-limit.js";
import { PROCEDURES } from "./procedures.js";

/** The metrics of one process, as JSON that can be sent between processes. */
export type MetricsSnapshot = MetricObjectWithValues<MetricValue<string>>[];

/** The metrics of this process. Labels have few, fixed values: never a key, an id or an address. */
export interface Metrics {
  /** Counts and times every request. */
  observe: RequestHandler;
  onKeyLookUp(cached: boolean): void;
  /** Called if a request is counted in memory because Redis is lost. */
  onFallback(): void;
  onDatabaseError(failure: Failure): void;
  /** Reports the connections of this pool from now on. */
  watchPool(pool: Pool): void;
  /** Reports the requests that wait for their key holder's turn from now on. */
  watchHolders(limit: HolderLimit): void;
  /** Reports whether Redis is available from now on. */
  watchRedis(redis: { isUp(): boolean }): void;
  read(): Promise<MetricsSnapshot>;
}

const BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
export const PREFIX = "guest_forms_";
const FAILURES: readonly Failure[] = ["conflict", "unavailable", "fault"];
const { version: VERSION } = createRequire(import.meta.url)("guest-forms/package.json");

export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  // Includes event-loop lag, memory and garbage collection.
  collectDefaultMetrics({ register: registry });
  const requests = new Counter({
    name: `${PREFIX}requests_total`,
    help: "Requests answered, by operation and HTTP status",
    labelNames: ["operation", "status"],
    registers,
  });
  const seconds = new Histogram({
    name: `${PREFIX}request_duration_seconds`,
    help: "Seconds from a request's arrival to the end of its response, by operation",
    labelNames: ["operation"],
    buckets: BUCKETS_SECONDS,
    registers,
  });
  // The same in all processes: take the first, not the sum.
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
    name: `${PREFIX}key_lookups_total`,
    help: "Look-ups of well-formed keys, by result of the process's cache (hit, miss)",
    labelNames: ["cache"],
    registers,
  });
  const refusals = new Counter({
    name: `${PREFIX}rate_limit_refusals_total`,
    help: "Requests rejected with 429, by limit (key, bad_key)",
    labelNames: ["limit"],
    registers,
  });
  const fallbacks = new Counter({
    name: `${PREFIX}rate_limit_fallbacks_total`,
    help: "Requests counted in memory because Redis was unavailable",
    registers,
  });
  const replays = new Counter({
    name: `${PREFIX}replays_total`,
    help: "Idempotent replays of creates",
    registers,
  });
  // Start at 0: Prometheus misses the first increase of a counter that was absent.
  for (const cache of ["hit", "miss"]) keyLookUps.inc({ cache }, 0);
  for (const limit of ["key", "bad_key"]) refusals.inc({ limit }, 0);
  for (const failure of FAILURES) databaseErrors.inc({ class: failure }, 0);
  for (const operation of [...PROCEDURES, "batch", "none"]) requests.inc({ operation, status: 500 }, 0);
  return {
    observe(_req, res, next) {
      const began = performance.now();
      res.once("close", () => {
        const operation = res.locals.operation?.name ?? res.locals.procedure ?? "none";
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
        help: "Database connections, by state (busy, idle)",
        labelNames: ["state"],
        registers,
        collect() {
          this.set({ state: "busy" }, pool.totalCount - pool.idleCount);
          this.set({ state: "idle" }, pool.idleCount);
        },
      });
      new Gauge({
        name: `${PREFIX}pool_waiting_requests`,
        help: "Requests that wait for a database connection",
        registers,
        collect() {
          this.set(pool.waitingCount);
        },
      });
    },
    watchHolders(limit) {
      new Gauge({
        name: `${PREFIX}holder_waiting_requests`,
        help: "Requests that wait because their key holder uses DATABASE_CONNECTIONS_PER_HOLDER connections",
        registers,
        collect() {
          this.set(limit.waiting);
        },
      });
      const rejections = new Counter({
        name: `${PREFIX}holder_rejections_total`,
        help: "Requests that got 503 because too many requests of their key holder were waiting, or for too long",
        registers,
      });
      limit.onRejected = () => rejections.inc();
    },
    watchRedis(redis) {
      new Gauge({
        name: `${PREFIX}redis_up`,
        help: "1 if Redis counts the rate limits, 0 if it is unavailable; absent without REDIS_URL",
        aggregator: "min",
        registers,
        collect() {
          this.set(redis.isUp() ? 1 : 0);
        },
      });
    },
    read: async () => (await registry.getMetricsAsJSON()).map(withAggregator),
  };
}

/**
 * Changes how some default metrics are merged. prom-client averages the lag of event loops, which hides a slow process
 * among idle ones, and omits the start time; the first snapshot is that of the primary.
 */
function withAggregator(metric: MetricsSnapshot[number]): MetricsSnapshot[number] {
  if (metric.name === "process_start_time_seconds") return { ...metric, aggregator: "first" };
  const isLag = metric.name.startsWith("nodejs_eventloop_lag_") && metric.aggregator === "average";
  return isLag ? { ...metric, aggregator: "max" } : metric;
}

/** Merges snapshots, adding up counters. */
export const mergeSnapshots = (snapshots: MetricsSnapshot[]): Registry =>
  AggregatorRegistry.aggregate(snapshots);

/** Sums counters and histograms; drops gauges, which end with their process. */
export async function sumCounters(snapshots: MetricsSnapshot[]): Promise<MetricsSnapshot> {
  const counted = snapshots.map((snapshot) =>
    snapshot.filter(({ type }) => String(type) === "counter" || String(type) === "histogram"),
  );
  return mergeSnapshots(counted).getMetricsAsJSON();
}
