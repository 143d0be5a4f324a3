import { createServer, IncomingMessage, type Server, ServerResponse } from "node:http";
import express, { type Express, type RequestHandler } from "express";
import type { Store } from "express-rate-limit";
import helmet from "helmet";
import type { Logger } from "pino";
import type { Services } from "../server/context.js";
import { ServiceError } from "../server/errors.js";
import { assertCanWrite } from "../server/trpc.js";
import { documentation } from "./docs/documentation.js";
import { authenticate } from "./http/authenticate.js";
import { readBody } from "./http/body.js";
import { bridge } from "./http/bridge.js";
import { allowOrigins, answerPreflight } from "./http/cors.js";
import { answerTime, limitTime, stopIfAnswered } from "./http/deadline.js";
import { sendEnvelope } from "./http/envelope.js";
import { health, type Lifecycle } from "./http/health.js";
import "./http/locals.js";
import { answerOptions, refuseMethod } from "./http/methods.js";
import { type Operation, ROUTES } from "./http/operations.js";
import { LocalStore, limitRate } from "./http/rate-limit.js";
import { envelopeRefusals } from "./http/refusals.js";
import { correlate, demandHost, withExactTarget } from "./http/request.js";
import type { Metrics } from "./internal/metrics.js";
import { LIMITS } from "./process/listening.js";

export interface AppDeps {
  services: Services;
  log: Logger;
  lifecycle?: Lifecycle;
  /** Why this process lets notifications wait, if it does: /readyz reports it. */
  notificationsWait?: string | undefined;
  /** Stores for the rate limits, by key prefix. By default they are in this process's memory. */
  counters?: ((prefix: string) => Store) | undefined;
  metrics?: Metrics | undefined;
  traceRequests?: RequestHandler | undefined;
}

/** The public side of the service. Never listens: `serve.ts` does. */
export function createApp(deps: AppDeps): Express {
  const { services, log, lifecycle = { stage: "serving" } } = deps;
  const { settings } = services;
  const observers = [deps.metrics?.observe, deps.traceRequests].filter((handler) => handler !== undefined);
  const v1 = createV1({ ...deps, lifecycle, observers });
  const app = express();
  app.disable("x-powered-by").disable("etag");
  app.set("query parser", false).set("trust proxy", settings.TRUST_PROXY);
  app.use(closeConnectionsOf(lifecycle), correlate(log), securityHeaders, demandHost);
  // Whatever could pass for a path below /v1 asks for a key before it is an unknown path.
  app.use((req, res, next) => (COULD_BE_V1.test(req.path) ? v1(req, res, next) : next()));
  app.use(health(services.db, lifecycle, answerTime(settings), deps.notificationsWait));
  app.use(documentation());
  app.use(...observers, refusePath);
  app.use(sendEnvelope(log));
  return app;
}

const COULD_BE_V1 = /^[/\\]+v1(?![\w-])/i;

/** The REST interface. The order of the checks is part of its contract. */
function createV1(deps: AppDeps & { lifecycle: Lifecycle; observers: RequestHandler[] }) {
  const { services, log, lifecycle, observers, metrics, counters = () => new LocalStore() } = deps;
  const { settings } = services;
  const call = bridge(services);
  const v1 = express.Router();
  v1.use(...observers, noStore, ...allowOrigins(settings));
  const options = express.Router();
  for (const { pattern, allow } of ROUTES) options.options(pattern, answerOptions(allow));
  options.use(answerPreflight);
  v1.use(
    (req, res, next) => (req.method === "OPTIONS" ? options(req, res, next) : next()),
    refuseWhileDraining(lifecycle),
    limitTime(settings, log),
    authenticate(services, counters("guest-forms:bad-key:"), metrics?.onKeyLookUp),
    limitRate(settings, counters("guest-forms:key:")),
    stopIfAnswered,
  );
  for (const { pattern, allow, operations } of ROUTES) {
    const route = v1.route(pattern);
    for (const operation of operations) {
      const handlers = [named(operation)];
      if (operation.writes) handlers.push(demandWriteMode);
      if (operation.reads === "body") handlers.push(readBody(settings));
      route[operation.verb](...handlers, call(operation));
    }
    route.all(refuseMethod(allow));
  }
  v1.use(refusePath);
  return v1;
}

const securityHeaders = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  },
  xDnsPrefetchControl: false,
  xDownloadOptions: false,
  xPermittedCrossDomainPolicies: false,
  originAgentCluster: false,
  xXssProtection: false,
  xFrameOptions: { action: "deny" },
});

const noStore: RequestHandler = (_req, res, next) => {
  res.setHeader("Cache-Control", "no-store");
  next();
};

/** Makes clients of a stopping process open their next connection to another. */
const closeConnectionsOf =
  (lifecycle: Lifecycle): RequestHandler =>
  (_req, res, next) => {
    if (lifecycle.stage !== "serving") res.setHeader("Connection", "close");
    next();
  };

const refuseWhileDraining =
  (lifecycle: Lifecycle): RequestHandler =>
  (_req, res, next) => {
    if (lifecycle.stage !== "draining") return next();
    res.setHeader("Connection", "close");
    throw new ServiceError("INTERNAL_ERROR", {
      status: 503,
      retryAfter: 1,
      message: "This instance is stopping: try again.",
    });
  };

/** Names the operation to logs, metrics and traces. */
const named =
  (operation: Operation): RequestHandler =>
  (_req, res, next) => {
    res.locals.operation = operation;
    next();
  };

const demandWriteMode: RequestHandler = (_req, res, next) => {
  assertCanWrite(res.locals.principal);
  next();
};

const refusePath: RequestHandler = () => {
  throw new ServiceError("RESOURCE_NOT_FOUND", {
    message: "Unknown path, or an id in it is not a UUID: see /openapi.json.",
  });
};

/** The HTTP server of the application; does not listen yet. */
export function serverOf(app: Express): Server {
  const server = createServer({ ...LIMITS, ...classesOf(app) }, withExactTarget(app));
  envelopeRefusals(server);
  return server;
}

/**
 * Request and response classes that have the application's prototypes from the start. Express would otherwise change
 * the prototype of every request and response, which makes them slow in V8: .47 of the throughput, as measured.
 */
function classesOf(app: Express) {
  class Request extends IncomingMessage {}
  class Response<Req extends IncomingMessage> extends ServerResponse<Req> {}
  app.request = Object.setPrototypeOf(Request.prototype, app.request);
  app.response = Object.setPrototypeOf(Response.prototype, app.response);
  return { IncomingMessage: Request, ServerResponse: Response };
}
