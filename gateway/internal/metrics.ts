import type { NextFunction, Request, Response } from "express";
import type { Pool } from "pg";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Failure } from "../../server/database/failures.js";
import type { HolderLimit } from "../../server/database/holder-limit.js";
import { READ_PLACES, type ReadPlace } from "../../server/database/reads.js";
import type { Admission } from "../http/admission.js";
import { PROCEDURES } from "../http/procedures.js";
import { describeRoute } from "../http/request.js";
import { PACKAGE } from "../runtime/package.js";

const FAILURES: readonly Failure[] = ["conflict", "unavailable", "fault"];

export type Metrics = ReturnType<typeof createMetrics>;

/** Creates the metrics of this process. Labels have few, fixed values: never a key, an id or an address. */
export function createMetrics() {
  const registry = new Registry();
  // Includes event-loop lag, memory and garbage collection.
  collectDefaultMetrics({ register: registry });
  const kinds = metricsOf(registry);
  kinds
    .gauge("build_info", "The version of the service and of Node.js; always 1", "version", "node")
    .set({ version: PACKAGE.version, node: process.version }, 1);
  return { registry, ...countRequests(kinds), ...countEvents(kinds), ...watchers(kinds) };
}

type Kinds = ReturnType<typeof metricsOf>;

function countRequests({ counter, seconds }: Kinds) {
  const requests = counter("requests_total", "Requests answered, by operation and HTTP status", "operation", "status");
  const durations = seconds(
    "request_duration_seconds",
    "Seconds from a request's arrival to the end of its response, by the operation that was called",
    "operation",
  );
  const refusals = counter("rate_limit_refusals_total", "Requests rejected with 429, by limit (key, bad_key)", "limit");
  const replays = counter("replays_total", "Idempotent replays of creates");
  // Start at 0: Prometheus misses the first increase of a counter that was absent.
  for (const limit of ["key", "bad_key"]) refusals.inc({ limit }, 0);
  for (const operation of [...PROCEDURES, "batch", "none"]) requests.inc({ operation, status: 500 }, 0);
  return {
    /** Counts and times every request. */
    observe(req: Request, res: Response, next: NextFunction) {
      res.once("close", () => {
        const { operation = "none" } = describeRoute(req, res);
        requests.inc({ operation, status: res.writableFinished ? res.statusCode : "aborted" });
        const called = res.locals.operation?.name ?? res.locals.procedure ?? "none";
        durations.observe({ operation: called }, (performance.now() - res.locals.arrivedAt) / 1000);
        if (res.statusCode === 429) refusals.inc({ limit: res.locals.principal ? "key" : "bad_key" });
        if (res.hasHeader("Idempotent-Replayed")) replays.inc();
      });
      next();
    },
  };
}

function countEvents({ counter }: Kinds) {
  const databaseErrors = counter(
    "database_errors_total",
    "Statements and transactions that failed, by class (conflict, unavailable, fault)",
    "class",
  );
  const keyLookUps = counter(
    "key_lookups_total",
    "Look-ups of well-formed keys, by result of the process's cache (hit, miss)",
    "cache",
  );
  const reads = counter(
    "reads_total",
    "Reads with DATABASE_REPLICA_URL, by where they ran: standby, or why on the primary (recent, behind, cancelled, failed, unused)",
    "place",
  );
  const fallbacks = counter("rate_limit_fallbacks_total", "Requests counted in memory because Redis was unavailable");
  for (const cache of ["hit", "miss"]) keyLookUps.inc({ cache }, 0);
  for (const place of READ_PLACES) reads.inc({ place }, 0);
  for (const failure of FAILURES) databaseErrors.inc({ class: failure }, 0);
  return {
    onKeyLookUp: (cached: boolean) => keyLookUps.inc({ cache: cached ? "hit" : "miss" }),
    onRead: (place: ReadPlace) => reads.inc({ place }),
    /** Called if a request is counted in memory because Redis is lost. */
    onFallback: () => fallbacks.inc(),
    onDatabaseError: (failure: Failure) => databaseErrors.inc({ class: failure }),
  };
}

function watchers({ counter, watch }: Kinds) {
  return {
    /** Reports the connections of this pool from now on. */
    watchPool(pool: Pool) {
      const connections = () => ({ busy: pool.totalCount - pool.idleCount, idle: pool.idleCount });
      watch("pool_connections", "Database connections, by state (busy, idle)", connections, "state");
      watch("pool_waiting_requests", "Requests that wait for a database connection", () => pool.waitingCount);
    },
    /** Reports the requests that wait for their key holder's turn from now on. */
    watchHolders(limit: HolderLimit, admission: Admission) {
      watch(
        "holder_waiting_requests",
        "Requests that wait for the turn of their key or key holder, who uses DATABASE_CONNECTIONS_PER_HOLDER connections",
        () => limit.waiting + admission.waiting,
      );
      const rejections = counter(
        "holder_rejections_total",
        "Requests that got 503 because too many requests of their key holder were waiting, or for too long",
      );
      limit.onRejected = () => rejections.inc();
    },
    /** Reports whether Redis is available from now on. */
    watchRedis(redis: { isUp(): boolean }) {
      watch("redis_up", "1 if Redis counts the rate limits, 0 if it is unavailable; absent without REDIS_URL", () =>
        redis.isUp() ? 1 : 0,
      );
    },
  };
}

const PREFIX = "guest_forms_";
const BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Creates metrics of the service in a registry: a name without the prefix, its help, and the name of its label if it has any. */
export function metricsOf(registry: Registry) {
  const about = (name: string, help: string, ...labelNames: string[]) => ({
    name: `${PREFIX}${name}`,
    help,
    labelNames,
    registers: [registry],
  });
  return {
    counter: (...options: Parameters<typeof about>) => new Counter(about(...options)),
    gauge: (...options: Parameters<typeof about>) => new Gauge(about(...options)),
    seconds: (...options: Parameters<typeof about>) =>
      new Histogram({ ...about(...options), buckets: BUCKETS_SECONDS }),
    /** A gauge that is read when it is scraped: one value, or one for each value of the label that is not absent. */
    watch: (name: string, help: string, read: () => number | Record<string, number | undefined>, label = "") =>
      new Gauge({
        ...about(name, help, ...(label ? [label] : [])),
        collect() {
          const value = read();
          if (typeof value === "number") this.set(value);
          else
            for (const [key, number] of Object.entries(value))
              if (number !== undefined) this.set({ [label]: key }, number);
        },
      }),
  };
}
