import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Express, RequestHandler, Response } from "express";
import type { Logger } from "pino";
import { invalid } from "../../server/errors.js";
import { HEALTH_CHECKS, loggedRoute } from "./logged-route.js";

// What happens first and last to every request, on the public port and on the internal one.

/** The responses of a connection that have not ended, in the order they are sent. */
export const unfinishedResponses = new WeakMap<Duplex, Set<ServerResponse>>();

/**
 * Gives each request an id, sent in `X-Correlation-Id`. When the request ends, its deadline does, and one line is logged:
 * that of a health check at debug level.
 */
export function correlate(log: Logger): RequestHandler {
  return (req, res, next) => {
    const { locals } = res;
    const began = performance.now();
    locals.correlationId = randomUUID();
    res.setHeader("X-Correlation-Id", locals.correlationId);
    const responses = unfinishedResponses.get(req.socket) ?? new Set();
    unfinishedResponses.set(req.socket, responses.add(res));
    res.once("close", () => {
      responses.delete(res);
      // A client that is gone no longer needs the deadline, but what it asked for still does.
      if (res.writableFinished) locals.deadline?.pause();
      const { operation } = locals;
      const about = operation ? { route: operation.path, operation: operation.name } : loggedRoute(req, res);
      log[HEALTH_CHECKS.has(about.route) ? "debug" : "info"](
        {
          correlationId: locals.correlationId,
          keyId: locals.principal?.keyId,
          userId: locals.actor?.kind === "user" ? locals.actor.userId : undefined,
          method: req.method,
          ...about,
          status: res.writableFinished ? res.statusCode : "aborted",
          ms: Math.round((performance.now() - began) * 100) / 100,
        },
        "request",
      );
    });
    next();
  };
}

/**
 * The listener that hands requests to an Express application, with `req.url` as the path and query exactly as sent. An
 * absolute target loses its scheme and authority, and `#` is encoded: otherwise Express would use `url.parse` before any
 * middleware runs. It drops what follows a `#`, which matches another path, and throws if it cannot read the authority,
 * which Express answers in HTML.
 */
export const withExactTarget =
  (app: Express) =>
  (req: IncomingMessage, res: ServerResponse): void => {
    const target = (req.url ?? "").replace(/^https?:\/\/[^/?]*/i, "").replaceAll("#", "%23");
    req.url = target.startsWith("/") ? target : `/${target}`;
    app(req, res);
  };

/** Demands one Host header. Node's own check answers outside the envelope. */
export const demandHost: RequestHandler = (req, res, next) => {
  const hosts = req.headersDistinct.host?.length ?? 0;
  if (hosts > 1 || (hosts === 0 && req.httpVersion === "1.1")) {
    res.setHeader("Connection", "close");
    throw invalid([{ field: "request", issue: "must have one Host header" }]);
  }
  next();
};

/** Ends a response with JSON text; a HEAD request gets the same headers and no body. */
export function sendJson(res: Response, json: string): void {
  res.setHeader("Content-Type", "application/json; charset=utf-8");
  const bytes = Buffer.byteLength(json);
  res.setHeader("Content-Length", bytes);
  // Pure ASCII is sent faster as latin1.
  res.end(json, bytes === json.length ? "latin1" : "utf8");
}
