import { createHash, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { getTRPCErrorShape } from "@trpc/server";
import { createExpressMiddleware } from "@trpc/server/adapters/express";
import express, { type ErrorRequestHandler, type Express, type Request, type RequestHandler } from "express";
import type { Logger } from "pino";
import { Registry } from "prom-client";
import { createContext, type Services } from "../../server/access/context.js";
import { toServiceError } from "../../server/database/failures.js";
import { invalid, notFound, ServiceError } from "../../server/errors.js";
import { appRouter } from "../../server/router.js";
import { fromTrpcError, setCorrelationId } from "../../server/trpc.js";
import { actAs } from "../../server/users/store.js";
import { sendEnvelope, sendError } from "../http/envelope.js";
import { noStore } from "../http/methods.js";
import { correlate, withExactTarget } from "../http/request.js";
import { drain, listen, SERVER_OPTIONS } from "../process/listening.js";
import "../http/locals.js";
import { handleProtocolErrors } from "../http/protocol-errors.js";
import { readDatabaseMetrics } from "./database-metrics.js";
import { type Metrics, PROCEDURES } from "./metrics.js";

/** Limits of one HTTP request, a call or a batch of calls. */
const MAX_BODY_BYTES = 65_536;
const MAX_BATCH_CALLS = 50;

export interface InternalDeps {
  services: Services;
  log: Logger;
  metrics: Metrics;
  /** Creates the spans of requests. */
  traceRequests?: RequestHandler | undefined;
}

/** Opens the internal port. Does nothing if INTERNAL_TOKEN is unset. */
export async function startInternal(deps: InternalDeps) {
  const { settings } = deps.services;
  const { INTERNAL_TOKEN, DRAIN_SECONDS } = settings;
  if (!INTERNAL_TOKEN) return undefined;
  const server = createServer(SERVER_OPTIONS, withExactTarget(createInternalApp(deps, INTERNAL_TOKEN)));
  handleProtocolErrors(server);
  const url = await listen(server, settings, "INTERNAL_PORT");
  deps.log.info({ url }, "listening for internal tools");
  return { stop: () => drain(server, DRAIN_SECONDS * 1000) };
}

/**
 * The internal application: every procedure at `/trpc`, over tRPC's HTTP protocol (for `@trpc/client`, with the type
 * `AppRouter` of `guest-forms/router`), and `/metrics`. Every path requires `Authorization: Bearer <INTERNAL_TOKEN>`, which
 * allows acting as the operator and as any user. A call acts as the user in `X-User-Id`, or as the operator without it.
 */
function createInternalApp({ services, log, metrics, traceRequests }: InternalDeps, token: string): Express {
  const app = express();
  app.disable("x-powered-by").disable("etag").set("query parser", false);
  app.use(correlate(log), noStore);
  app.use("/trpc", metrics.observe, ...(traceRequests ? [traceRequests] : []));
  app.use(requireToken(token));
  app.get("/metrics", async (_req, res) => {
    const all = Registry.merge([metrics.registry, await readDatabaseMetrics(services)]);
    res.setHeader("Content-Type", all.contentType);
    res.end(await all.metrics());
  });
  app.use("/trpc", setActor(services), callProcedures(services, log));
  app.use("/trpc", sendTrpcError(services, log));
  app.use(() => {
    throw notFound();
  });
  app.use(sendEnvelope(log));
  return app;
}

const digest = (text: string) => createHash("sha256").update(text).digest();

function requireToken(token: string): RequestHandler {
  const expected = digest(token);
  return (req, _res, next) => {
    const sent = /^Bearer +(\S+)$/i.exec(singleHeader(req, "authorization") ?? "")?.[1];
    // Compare digests, so that timing does not leak the token or its length.
    if (sent === undefined || !timingSafeEqual(digest(sent), expected)) {
      throw new ServiceError("UNAUTHENTICATED", { message: "The internal token is missing or wrong." });
    }
    next();
  };
}

/** The value of a header; undefined if absent. VALIDATION_ERROR if it was sent more than once. */
function singleHeader({ headersDistinct }: Request, name: string): string | undefined {
  const [value, ...more] = headersDistinct[name] ?? [];
  if (more.length > 0) throw invalid([{ field: name, issue: "must be sent once" }]);
  return value;
}

function setActor(services: Services): RequestHandler {
  return async (req, res, next) => {
    const userId = singleHeader(req, "x-user-id");
    res.locals.actor = userId === undefined ? { kind: "operator" } : await actAs(services, userId);
    next();
  };
}

function callProcedures(services: Services, log: Logger): RequestHandler {
  return createExpressMiddleware({
    router: appRouter,
    maxBodySize: MAX_BODY_BYTES,
    maxBatchSize: MAX_BATCH_CALLS,
    // Queries may be sent as POST, which keeps secrets such as a guest's link out of URLs.
    allowMethodOverride: true,
    createContext: ({ req, res, info: { calls } }) => {
      const [path = ""] = calls.map((call) => call.path);
      res.locals.procedure = calls.length > 1 ? "batch" : PROCEDURES.has(path) ? path : "none";
      return createContext(services, res.locals.actor ?? null, {
        correlationId: res.locals.correlationId,
        idempotencyKey: singleHeader(req, "idempotency-key"),
      });
    },
    responseMeta: ({ ctx, errors }) => {
      const headers = new Headers();
      if (ctx?.outcome.replayed) headers.set("Idempotent-Replayed", "true");
      const waits = errors.map((error) => fromTrpcError(error).retryAfter ?? 0);
      if (waits.some(Boolean)) headers.set("Retry-After", String(Math.max(...waits)));
      return { headers };
    },
    onError: ({ error, path, req }) => {
      const { correlationId } = (req.res as NonNullable<Request["res"]>).locals;
      setCorrelationId(error, correlationId);
      if (fromTrpcError(error).status < 500) return;
      const procedure = PROCEDURES.has(path ?? "") ? path : undefined;
      log.error({ correlationId, procedure, err: error.cause ?? error }, "call failed");
    },
  });
}

/** Answers errors that occur before tRPC is called, in the format of tRPC's client. */
function sendTrpcError(services: Services, log: Logger): ErrorRequestHandler {
  return (failure, _req, res, _next) => {
    const error = toServiceError(failure);
    const { correlationId } = res.locals;
    if (error.status >= 500) log.error({ correlationId, err: error.cause ?? error }, "call failed");
    const shape = getTRPCErrorShape({
      // tRPC has no public name for it.
      config: appRouter._def._config,
      error,
      type: "unknown",
      path: undefined,
      input: undefined,
      ctx: createContext(services, null, { correlationId }),
    });
    sendError(res, error, { error: shape });
  };
}
