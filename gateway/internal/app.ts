import { createServer } from "node:http";
import express, { type Express, type Request, type RequestHandler } from "express";
import { Registry } from "prom-client";
import type { Services } from "../../server/access/context.js";
import { notFound, ServiceError } from "../../server/errors.js";
import { appRouter } from "../../server/router.js";
import { actAs } from "../../server/users/store.js";
import { type ConsoleDeps, openConsole } from "../console/app.js";
import { sendEnvelope } from "../http/envelope.js";
import { tokenComparison } from "../http/internal-token.js";
import "../http/locals.js";
import { callProcedures, sendTrpcError } from "../http/procedures.js";
import { handleProtocolErrors } from "../http/protocol-errors.js";
import { correlate, noStore, requestListener, singleHeader } from "../http/request.js";
import { drain, listen, SERVER_OPTIONS } from "../runtime/listening.js";
import type { Readiness } from "../runtime/readiness.js";
import { readDatabaseMetrics } from "./database-metrics.js";
import type { Metrics } from "./metrics.js";

export interface InternalDeps extends ConsoleDeps {
  readiness: Readiness;
  metrics: Metrics;
}

/** Opens the internal port. Does nothing if INTERNAL_TOKEN is unset. */
export async function startInternal(deps: InternalDeps) {
  const { settings } = deps.services;
  const { INTERNAL_TOKEN, DRAIN_SECONDS } = settings;
  if (!INTERNAL_TOKEN) return undefined;
  const operatorConsole = openConsole(deps, INTERNAL_TOKEN);
  const app = createInternalApp(deps, INTERNAL_TOKEN, operatorConsole.handlers);
  const server = createServer(SERVER_OPTIONS, requestListener(app));
  handleProtocolErrors(server);
  try {
    const url = await listen(server, settings, "INTERNAL_PORT");
    deps.log.info({ url }, "listening for internal tools");
    return {
      url,
      stop() {
        operatorConsole.stop();
        return drain(server, DRAIN_SECONDS * 1000);
      },
    };
  } catch (error) {
    operatorConsole.stop();
    throw error;
  }
}

/**
 * The internal application: every procedure at `/trpc`, over tRPC's HTTP protocol (for `@trpc/client`, with the type
 * `AppRouter` of `guest-forms/router`), `/metrics`, and the console, which has its own sign-in. Every other path requires
 * `Authorization: Bearer <INTERNAL_TOKEN>`, which allows acting as the operator and as any user. A call acts as the user in
 * `X-User-Id`, or as the operator without it. With GUEST_TOKEN, a call acts as the guest's page.
 */
function createInternalApp(
  { services, readiness, log, metrics, traceRequests }: InternalDeps,
  token: string,
  operatorConsole: RequestHandler[],
): Express {
  const app = express();
  app.disable("x-powered-by").disable("etag");
  app.set("query parser", false);
  app.use(correlate(log), noStore);
  app.use("/console", operatorConsole);
  app.use("/trpc", metrics.observe, ...(traceRequests ? [traceRequests] : []));
  app.use("/trpc", setActor(services, token), callProcedures(services, log, appRouter));
  app.use("/trpc", sendTrpcError(services, log));
  app.use(requireToken(token));
  app.get("/metrics", async (_req, res) => {
    const all = Registry.merge([metrics.registry, await readDatabaseMetrics(services, readiness)]);
    res.setHeader("Content-Type", all.contentType);
    res.end(await all.metrics());
  });
  app.use(() => {
    throw notFound();
  });
  app.use(sendEnvelope(log));
  return app;
}

const sentToken = (req: Request) => /^Bearer +(\S+)$/i.exec(singleHeader(req, "authorization") ?? "")?.[1] ?? "";

const wrongToken = () => new ServiceError("UNAUTHENTICATED", { message: "The internal token is missing or wrong." });

function requireToken(token: string): RequestHandler {
  const isToken = tokenComparison(token);
  return (req, _res, next) => {
    if (!isToken(sentToken(req))) throw wrongToken();
    next();
  };
}

function setActor(services: Services, token: string): RequestHandler {
  const isToken = tokenComparison(token);
  const { GUEST_TOKEN } = services.settings;
  const isGuestToken = GUEST_TOKEN === undefined ? () => false : tokenComparison(GUEST_TOKEN);
  return async (req, res, next) => {
    const sent = sentToken(req);
    const userId = singleHeader(req, "x-user-id");
    if (isToken(sent)) res.locals.actor = userId === undefined ? { kind: "operator" } : await actAs(services, userId);
    else if (!isGuestToken(sent)) throw wrongToken();
    else if (userId === undefined) res.locals.actor = { kind: "guest" };
    else throw new ServiceError("FORBIDDEN", { message: "The guest's page acts as no user: send no X-User-Id." });
    next();
  };
}
