import express, { type Express, type RequestHandler } from "express";
import type { Store } from "express-rate-limit";
import type { Logger } from "pino";
import { demandWriter, type Services } from "../server/context.js";
import { invalid, notFound, ServiceError } from "../server/errors.js";
import { documentation } from "./docs/documentation.js";
import { authenticate } from "./http/authenticate.js";
import { readBody } from "./http/body.js";
import { correlate } from "./http/correlation.js";
import { allowOrigins } from "./http/cors.js";
import { answerTime, deadline } from "./http/deadline.js";
import { sendEnvelope } from "./http/envelope.js";
import { health } from "./process/health.js";
import "./http/locals.js";
import { callOperation } from "./http/bridge.js";
import { allow, matchPath } from "./http/operations.js";
import { limitRate } from "./http/rate-limit.js";
import { LocalStore } from "./http/rate-store.js";
import { secure } from "./http/security-headers.js";
import { sequence } from "./http/sequence.js";
import type { Metrics } from "./internal/metrics.js";

export interface AppDeps {
  services: Services;
  log: Logger;
  /** True once the process is stopping: /readyz says so, and new requests are turned away. */
  isDraining?: () => boolean;
  /** True once it is about to: /readyz says so, and new requests are served. */
  isLeaving?: () => boolean;
  /** Where the limits are counted, by a prefix for each; in this process's memory where absent. */
  counters?: ((prefix: string) => Store) | undefined;
  /** What is counted and measured; nothing where absent. */
  metrics?: Metrics | undefined;
  /** Spans of requests; none where absent. */
  traceRequests?: RequestHandler | undefined;
}

/** The public side of the service. Never listens: `serve.ts` does. */
export function createApp(deps: AppDeps): Express {
  const {
    services,
    log,
    isDraining = () => false,
    isLeaving = isDraining,
    counters = () => new LocalStore(),
    metrics,
    traceRequests,
  } = deps;
  const { settings } = services;
  const app = express();
  app
    .disable("x-powered-by")
    .disable("etag")
    .set("query parser", false)
    .set("trust proxy", settings.TRUST_PROXY);

  const observed = [metrics?.observe, traceRequests].filter((handler) => handler !== undefined);
  const clock = deadline(settings, log);
  const v1 = under("/v1", [
    ...observed,
    noStore,
    ...allowOrigins(settings),
    answerOptions,
    turnAwayWhen(isDraining),
    clock.start,
    authenticate(services, counters("guest-forms:bad-key:"), metrics?.onKeyLookUp),
    limitRate(settings, counters("guest-forms:key:")),
    matchOperation,
    demandMode,
    ofWrites([clock.pause, readBody(settings), clock.resume]),
    callOperation(services),
  ]);
  app.use(sequence([correlate(log), secure, demandHost, v1]));
  app.use(health(services.db, isLeaving, answerTime(settings)));
  app.use(documentation());
  app.use(...observed, () => {
    throw notFound();
  });
  app.use(sendEnvelope(log));
  return app;
}

/** Runs the handlers for whatever could pass for a path below the prefix, so that a key is always asked for. */
function under(prefix: string, handlers: RequestHandler[]): RequestHandler {
  const below = new RegExp(`^[/\\\\]+${prefix.slice(1)}(?![\\w-])`, "i");
  const run = sequence(handlers);
  return (req, res, next) => (below.test(res.locals.path) ? run(req, res, next) : next());
}

/** Runs the handlers for writes; the body of a read is none of ours. */
function ofWrites(handlers: RequestHandler[]): RequestHandler {
  const run = sequence(handlers);
  return (req, res, next) => {
    if (res.locals.operation?.writes) run(req, res, next);
    // Too late, where its time was up: what has not begun is not begun.
    else if (!res.headersSent) next();
  };
}

// Node's own check answers outside the envelope.
const demandHost: RequestHandler = (req, res, next) => {
  const hosts = req.headersDistinct.host?.length ?? 0;
  if (hosts > 1 || (hosts === 0 && req.httpVersion === "1.1")) {
    res.setHeader("Connection", "close");
    throw invalid([{ field: "request", issue: "must have one Host header" }]);
  }
  next();
};

const noStore: RequestHandler = (_req, res, next) => {
  res.locals.faults = [];
  res.setHeader("Cache-Control", "no-store");
  next();
};

const answerOptions: RequestHandler = (req, res, next) => {
  const match = matchPath(res.locals.path);
  if (match) res.locals.match = match;
  if (req.method !== "OPTIONS") return next();
  // A browser asks before it sends the key, and then shows its page the answer: a 404 too, where the origin may.
  const preflight =
    req.headers["access-control-request-method"] && res.hasHeader("Access-Control-Allow-Origin");
  if (!match && !preflight) return next();
  if (match) res.setHeader("Allow", allow(match));
  res.status(204).end();
};

const turnAwayWhen =
  (isDraining: () => boolean): RequestHandler =>
  (_req, res, next) => {
    if (!isDraining()) return next();
    res.setHeader("Connection", "close");
    throw new ServiceError("INTERNAL_ERROR", {
      status: 503,
      retryAfter: 1,
      message: "This instance is stopping: try again.",
    });
  };

const matchOperation: RequestHandler = (req, res, next) => {
  const { locals } = res;
  if (!locals.match) throw notFound();
  const operation = locals.match.operations.get(req.method === "HEAD" ? "GET" : req.method);
  if (!operation) {
    res.setHeader("Allow", allow(locals.match));
    throw new ServiceError("RESOURCE_NOT_FOUND", {
      status: 405,
      message: "This path does not take this method.",
    });
  }
  locals.operation = operation;
  next();
};

const demandMode: RequestHandler = (_req, res, next) => {
  if (res.locals.operation?.writes) demandWriter(res.locals.principal);
  next();
};
