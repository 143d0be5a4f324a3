import { type AnyTRPCRouter, getTRPCErrorShape } from "@trpc/server";
import { createExpressMiddleware } from "@trpc/server/adapters/express";
import type { ErrorRequestHandler, Request, RequestHandler } from "express";
import type { Logger } from "pino";
import { createContext, type Services } from "../../server/access/context.js";
import { type StopSignal, toServiceError, Unavailable } from "../../server/database/failures.js";
import { withAdvice } from "../../server/database/writes.js";
import { appRouter } from "../../server/router.js";
import { fromTrpcError, setCorrelationId } from "../../server/trpc.js";
import { sendError } from "./envelope.js";
import { singleHeader } from "./request.js";

/** Limits of one HTTP request, a call or a batch of calls. */
const MAX_BODY_BYTES = 65_536;
const MAX_BATCH_CALLS = 50;

/** The paths of a router's procedures, such as `forms.create`. tRPC has no public list of them. */
const pathsOf = (router: AnyTRPCRouter) => Object.keys(router._def.procedures);

/** The paths of all procedures. */
export const PROCEDURES = pathsOf(appRouter);

/** Calls procedures over tRPC's HTTP protocol, as the principal in `res.locals.actor`. */
export function callProcedures(services: Services, log: Logger, router: AnyTRPCRouter): RequestHandler {
  const paths = new Set(pathsOf(router));
  const nameOf = (path = "") => (paths.has(path) ? path : undefined);
  return createExpressMiddleware({
    router,
    maxBodySize: MAX_BODY_BYTES,
    maxBatchSize: MAX_BATCH_CALLS,
    // Queries may be sent as POST, which keeps secrets such as a guest's link out of URLs.
    allowMethodOverride: true,
    createContext: ({ req, res, info: { calls, signal } }) => {
      res.locals.procedure = calls.length > 1 ? "batch" : (nameOf(calls[0]?.path) ?? "none");
      return createContext(services, res.locals.actor ?? null, {
        correlationId: res.locals.correlationId,
        idempotencyKey: singleHeader(req, "idempotency-key"),
        signal: stopWhenAborted(signal),
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
      const { locals, closed } = req.res as NonNullable<Request["res"]>;
      const { correlationId } = locals;
      setCorrelationId(error, correlationId);
      if (closed || fromTrpcError(error).status < 500) return;
      log.error({ correlationId, procedure: nameOf(path), ...withAdvice(error.cause ?? error) }, "call failed");
    },
  });
}

/** For a caller who has gone: nobody waits for the result. */
const stopWhenAborted = (signal: AbortSignal): StopSignal => ({
  throwIfAborted() {
    if (signal.aborted) throw new Unavailable("the caller has gone");
  },
});

/** Answers errors that occur before tRPC is called, in the format of tRPC's client. */
export function sendTrpcError(services: Services, log: Logger): ErrorRequestHandler {
  return (failure, _req, res, _next) => {
    const error = toServiceError(failure);
    const { correlationId } = res.locals;
    if (error.status >= 500) log.error({ correlationId, ...withAdvice(error.cause ?? error) }, "call failed");
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
