import { type RequestHandler, Router } from "express";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { Services } from "../../server/access/context.js";
import { OperatorSessions } from "../../server/access/operator-sessions.js";
import { createCaller } from "../../server/caller.js";
import { enforceTimeout, isAnswered } from "../http/deadline.js";
import { tokenComparison } from "../http/internal-token.js";
import "../http/locals.js";
import { rejectMethod } from "../http/methods.js";
import { callProcedures, sendTrpcError } from "../http/procedures.js";
import { securityHeaders } from "../http/security-headers.js";
import { keepHistory } from "./history.js";
import { servePages } from "./pages.js";
import { createConsoleRouter } from "./router.js";
import { requireSameOrigin, requireSession, serveSession } from "./session.js";

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
export function openConsole({ services, log, metrics, traceRequests }: ConsoleDeps, token: string) {
  const history = keepHistory(services, metrics.registry);
  const { db, settings } = services;
  const procedures = createConsoleRouter(services, history);
  const sessions = new OperatorSessions(db, token);
  const session = requireSession(sessions);
  const router = Router({ caseSensitive: true, strict: true });
  router.use("/trpc", metrics.observe, ...(traceRequests ? [traceRequests] : []));
  router.use(pageHeaders, requireSameOrigin);
  router.use("/trpc", requirePost, session, callProcedures(services, log, procedures));
  router.use("/trpc", sendTrpcError(services, log));
  serveSession(router, sessions, { settings, log, isToken: tokenComparison(token) });
  router.get(EMAIL_PATH, enforceTimeout(settings, log), session, previewEmail(services));
  servePages(router);
  return { router, stop: history.stop };
}

/** Only resources of this server. No inline script or style, no eval. No HSTS: whether there is TLS is up to the proxy. */
const pageHeaders = securityHeaders(
  {
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'", "data:"],
    connectSrc: ["'self'"],
    frameSrc: ["'self'"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
  },
  false,
);

const requirePost: RequestHandler = (req, res, next) =>
  req.method === "POST" ? next() : rejectMethod("POST")(req, res, next);

// Express would fail on a malformed escape in a parameter.
const EMAIL_PATH = /^\/emails\/(?<formId>[\w-]+)\.html$/;

/** Styles of emails are inline. Scripts do not run, and nothing is loaded. */
const EMAIL_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'";

/** Sends the HTML of the invitation that the guest of a form would get, for a frame in the console. */
function previewEmail(services: Services): RequestHandler<{ formId: string }> {
  return async (req, res) => {
    const { actor = null, correlationId } = res.locals;
    const { notifications } = createCaller(services, actor, { correlationId });
    const { html } = await notifications.preview({ formId: req.params.formId });
    if (isAnswered(res)) return;
    res.set({ "Content-Security-Policy": EMAIL_POLICY, "X-Frame-Options": "SAMEORIGIN" });
    res.type("text/html").end(html);
  };
}
