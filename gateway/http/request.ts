import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Express, RequestHandler, Response } from "express";
import type { Logger } from "pino";
import { invalid } from "../../server/errors.js";
import { HEALTH_CHECKS, loggedRoute } from "./logged-route.js";

// The first and last steps of every request, on the public port and the internal one.

/** The unfinished responses of each connection, in the order in which they are sent. */
export const unfinishedResponses = new WeakMap<Duplex, Set<ServerResponse>>();

/**
 * Gives each request an id, sent in `X-Correlation-Id`. When the request ends, stops the deadline and logs one line (at
 * debug level for health checks).
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
      // If the client has disconnected, the handler is still running: keep its deadline.
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
 * Passes requests to an Express application with the path and query in `req.url` exactly as sent. Removes the scheme and
 * authority of an absolute target, and encodes `#`. Otherwise Express calls `url.parse`, which drops everything after a
 * `#`, and throws on an invalid authority, which Express answers in HTML.
 */
export const withExactTarget =
  (app: Express) =>
  (req: IncomingMessage, res: ServerResponse): void => {
    const target = (req.url ?? "").replace(/^https?:\/\/[^/?]*/i, "").replaceAll("#", "%23");
    req.url = target.startsWith("/") ? target : `/${target}`;
    app(req, res);
  };

/** Requires one Host header. Node's own check does not respond with the envelope. */
export const requireHost: RequestHandler = (req, res, next) => {
  const hosts = req.headersDistinct.host?.length ?? 0;
  if (hosts > 1 || (hosts === 0 && req.httpVersion === "1.1")) {
    res.setHeader("Connection", "close");
    throw invalid([{ field: "request", issue: "must have one Host header" }]);
  }
  next();
};

/** Ends a response with JSON text. A HEAD request gets the same headers and no body. */
export function sendJson(res: Response, json: string): void {
  res.setHeader("Content-Type", "application/json; charset=utf-8");
  const bytes = Buffer.byteLength(json);
  res.setHeader("Content-Length", bytes);
  // ASCII is sent faster as latin1.
  res.end(json, bytes === json.length ? "latin1" : "utf8");
}
