import { type RequestHandler, Router } from "express";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { Services } from "../../server/access/context.js";
import { OperatorSessions } from "../../server/access/operator-sessions.js";
import { tokenComparison } from "../http/internal-token.js";
import { rejectMethod } from "../http/methods.js";
import { callProcedures, sendTrpcError } from "../http/procedures.js";
import { securityHeaders } from "../http/security-headers.js";
import { sessionCookies } from "./cookies.js";
import { keepHistory } from "./history.js";
import { KnownSessions } from "./known-sessions.js";
import { requireKnownHost, requireSameOrigin } from "./origin.js";
import { servePages } from "./pages.js";
import { createConsoleRouter } from "./router.js";
import { requireSession, serveSession } from "./session.js";

export interface ConsoleDeps {
  services: Services;
  log: Logger;
  metrics: { registry: Registry; observe: RequestHandler };
  traceRequests?: RequestHandler | undefined;
}

/**
 * The console, at `/console` on the internal port: pages for operators, who sign in with INTERNAL_TOKEN and their name. The pages
 * call the procedures at `/console/trpc` as the operator with that name.
 */
export function openConsole(
  { services, log, metrics, traceRequests }: ConsoleDeps,
  token: string,
): { handlers: RequestHandler[]; stop: () => void } {
  const history = keepHistory(services, metrics.registry);
  const procedures = createConsoleRouter(services, history);
  const sessions = new KnownSessions(new OperatorSessions(services.db, token));
  const cookies = sessionCookies(token);
  const router = Router({ caseSensitive: true, strict: true });
  router.use("/trpc", metrics.observe, ...(traceRequests ? [traceRequests] : []));
  router.use(requireSameOrigin);
  router.use("/trpc", requirePost, requireSession(sessions, cookies), callProcedures(services, log, procedures));
  router.use("/trpc", sendTrpcError(services, log));
  serveSession(router, sessions, { cookies, settings: services.settings, log, isToken: tokenComparison(token) });
  servePages(router);
  return { handlers: [pageHeaders, requireKnownHost(services.settings), router], stop: history.stop };
}

/** Only resources of this server. No inline script or style, no eval. No HSTS: whether there is TLS is up to the proxy. */
const pageHeaders = securityHeaders(
  {
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'", "data:"],
    connectSrc: ["'self'"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
  },
  false,
);

const requirePost: RequestHandler = (req, res, next) =>
  req.method === "POST" ? next() : rejectMethod("POST")(req, res, next);
