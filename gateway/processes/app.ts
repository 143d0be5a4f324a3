import { createServer, IncomingMessage, type Server, ServerResponse } from "node:http";
import express, { type Express, type RequestHandler } from "express";
import type { Store } from "express-rate-limit";
import type { Logger } from "pino";
import type { Services } from "../../server/access/context.js";
import { ServiceError, unavailable } from "../../server/errors.js";
import { assertCanWrite } from "../../server/trpc.js";
import { documentation } from "../docs/documentation.js";
import { authenticate } from "../http/authenticate.js";
import { bridge } from "../http/bridge.js";
import { allowOrigins, answerPreflight } from "../http/cors.js";
import { enforceTimeout, stopIfAnswered } from "../http/deadline.js";
import { sendEnvelope } from "../http/envelope.js";
import { health, type Lifecycle } from "../http/health.js";
import { readBody } from "../http/input.js";
import "../http/locals.js";
import { type Admission, admit, rejectExcess } from "../http/admission.js";
import { answerOptions, rejectMethod } from "../http/methods.js";
import { handleProtocolErrors } from "../http/protocol-errors.js";
import { limitRate } from "../http/rate-limit.js";
import { correlate, noStore, requestListener, requireHost, warnOfProxy } from "../http/request.js";
import { securityHeaders } from "../http/security-headers.js";
import type { Metrics } from "../internal/metrics.js";
import { type Operation, ROUTES } from "../operations/operations.js";
import { SERVER_OPTIONS } from "../runtime/listening.js";
import type { Readiness } from "../runtime/readiness.js";

export interface AppDeps {
  services: Services;
  readiness: Readiness;
  admission: Admission;
  log: Logger;
  lifecycle: Lifecycle;
  /** Why this process does not send emails, if so. Reported by /readyz. */
  emailsWaitReason: string | undefined;
  /** Creates the store of a rate limit, given its key prefix. */
  createStore(prefix: string): Store;
  metrics: Metrics | undefined;
  traceRequests: RequestHandler | undefined;
}

/** The public application. It does not listen: `gateway.ts` does. */
export function createApp(deps: AppDeps): Express {
  const { services, log, lifecycle } = deps;
  const { settings } = services;
  const observers = [deps.metrics?.observe, deps.traceRequests].filter((handler) => handler !== undefined);
  const v1 = createV1(deps, observers);
  const app = express();
  app.disable("x-powered-by").disable("etag");
  app.set("query parser", false).set("trust proxy", settings.TRUST_PROXY);
  app.use(closeConnectionsOnShutdown(lifecycle), correlate(log), admit(deps.admission));
  if (settings.TRUST_PROXY === 0) app.use(warnOfProxy(log));
  app.use(securityHeaders(), requireHost);
  // Authenticate paths that only resemble /v1 too: without a key, a client learns nothing about paths.
  app.use((req, res, next) => (LOOKS_LIKE_V1.test(req.path) ? v1(req, res, next) : next()));
  app.use(health(deps.readiness, lifecycle, deps.emailsWaitReason));
  app.use(documentation(settings));
  app.use(...observers, rejectUnknownPath);
  app.use(sendEnvelope(log));
  return app;
}

const LOOKS_LIKE_V1 = /^[/\\]+v1(?![\w-])/i;

/** The REST API. See gateway/docs/contract.md#order-of-checks. */
function createV1({ services, log, lifecycle, metrics, createStore }: AppDeps, observers: RequestHandler[]) {
  const { settings } = services;
  const call = bridge(services);
  const v1 = express.Router();
  v1.use(...observers, noStore, ...allowOrigins(settings));
  const options = express.Router();
  for (const { pattern, allow } of ROUTES) options.options(pattern, answerOptions(allow));
  options.use(answerPreflight);
  v1.use(
    (req, res, next) => (req.method === "OPTIONS" ? options(req, res, next) : next()),
    rejectWhileDraining(lifecycle),
    enforceTimeout(settings, log),
    authenticate(services, createStore("guest-forms:bad-key:"), metrics?.onKeyLookUp),
    rejectExcess(services.holderLimit),
    limitRate(settings, createStore("guest-forms:key:")),
    stopIfAnswered,
  );
  for (const { pattern, allow, operations } of ROUTES) {
    const route = v1.route(pattern);
    for (const operation of operations) {
      const handlers = [setOperation(operation)];
      if (operation.isWrite) handlers.push(requireReadWriteKey);
      if (operation.inputSource === "body") handlers.push(readBody(settings));
      route[operation.verb](...handlers, call(operation));
    }
    route.all(rejectMethod(allow));
  }
  v1.use(rejectUnknownPath);
  return v1;
}

/** Makes clients of a process that is shutting down open their next connection to another process. */
const closeConnectionsOnShutdown =
  (lifecycle: Lifecycle): RequestHandler =>
  (_req, res, next) => {
    if (lifecycle.stage !== "serving") res.setHeader("Connection", "close");
    next();
  };

const rejectWhileDraining =
  (lifecycle: Lifecycle): RequestHandler =>
  (_req, res, next) => {
    if (lifecycle.stage !== "draining") return next();
    res.setHeader("Connection", "close");
    throw unavailable({ message: "This instance is shutting down. Retry the request." });
  };

/** Sets the operation, for logs, metrics and traces. */
const setOperation =
  (operation: Operation): RequestHandler =>
  (_req, res, next) => {
    res.locals.operation = operation;
    next();
  };

const requireReadWriteKey: RequestHandler = (_req, res, next) => {
  assertCanWrite(res.locals.principal);
  next();
};

const rejectUnknownPath: RequestHandler = () => {
  throw new ServiceError("RESOURCE_NOT_FOUND", {
    message: "Unknown path, or an id in it is not a UUID: see /openapi.json.",
  });
};

/** The HTTP server of the application. It does not listen yet. */
export function createHttpServer(app: Express): Server {
  const server = createServer({ ...SERVER_OPTIONS, ...createMessageClasses(app) }, requestListener(app));
  handleProtocolErrors(server);
  return server;
}

/**
 * Request and response classes with the application's prototypes. Otherwise Express changes the prototype of every
 * request and response, which makes them slow in V8 (0.47 × the throughput).
 */
function createMessageClasses(app: Express) {
  class Request extends IncomingMessage {}
  class Response<Req extends IncomingMessage> extends ServerResponse<Req> {}
  app.request = Object.setPrototypeOf(Request.prototype, app.request);
  app.response = Object.setPrototypeOf(Response.prototype, app.response);
  return { IncomingMessage: Request, ServerResponse: Response };
}
