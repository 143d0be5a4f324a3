import { randomUUID } from "node:crypto";
import type { RequestHandler } from "express";
import type { Logger } from "pino";
import { invalid } from "../../server/errors.js";
import { isHealthCheck, loggedRoute } from "./logged-route.js";

// What happens to every request first, on the public port and on the internal one.

/**
 * Gives each request an id, sent in `X-Correlation-Id`, and logs one line when the request ends: health checks at debug
 * level.
 */
export function correlate(log: Logger): RequestHandler {
  return (req, res, next) => {
    const { locals } = res;
    const began = performance.now();
    locals.correlationId = randomUUID();
    res.setHeader("X-Correlation-Id", locals.correlationId);
    res.once("close", () => {
      const route = loggedRoute(req, res);
      log[isHealthCheck(route) ? "debug" : "info"](
        {
          correlationId: locals.correlationId,
          keyId: locals.principal?.keyId,
          userId: locals.actor?.kind === "user" ? locals.actor.userId : undefined,
          method: req.method,
          ...route,
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
 * Makes `req.url` the path and query exactly as sent. An absolute target loses its scheme and authority. `#` is encoded:
 * otherwise Express would use `url.parse`, which drops all that follows and so matches another path.
 */
export const exactTarget: RequestHandler = (req, _res, next) => {
  const target = req.url.replace(/^https?:\/\/[^/?]*/i, "").replaceAll("#", "%23");
  req.url = target.startsWith("/") ? target : `/${target}`;
  next();
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
