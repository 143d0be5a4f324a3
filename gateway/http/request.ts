import type { IncomingMessage, ServerResponse } from "node:http";
import type { Express, Request, RequestHandler, Response } from "express";
import type { Logger } from "pino";
import { invalid } from "../../server/errors.js";
import { timeOrderedUuid } from "../../server/values.js";
import { ROUTES } from "../operations/operations.js";
import { isAdmitted } from "./connections.js";

// The first and last steps of every request, on the public port and the internal one.

/**
 * Gives each request an id, sent in `X-Correlation-Id`. When the request ends, stops the deadline and logs one line (at
 * debug level for health checks).
 */
export function correlate(log: Logger): RequestHandler {
  return (req, res, next) => {
    const { locals } = res;
    locals.arrivedAt = performance.now();
    locals.correlationId = timeOrderedUuid();
    res.setHeader("X-Correlation-Id", locals.correlationId);
    res.once("close", () => {
      // If the client has disconnected, the handler is still running: keep its deadline.
      if (res.writableFinished) locals.deadline?.pause();
      const about = describeRoute(req, res);
      log[HEALTH_CHECKS.has(about.route) ? "debug" : "info"](
        {
          correlationId: locals.correlationId,
          keyId: locals.principal?.keyId,
          userId: locals.actor?.kind === "user" ? locals.actor.userId : undefined,
          method: req.method,
          ...about,
          status: res.writableFinished ? res.statusCode : "aborted",
          ms: Math.round((performance.now() - locals.arrivedAt) * 100) / 100,
        },
        "request",
      );
    });
    next();
  };
}

/** Warns once, at the first request that a proxy seems to have forwarded, if the settings name none. */
export function warnOfProxy(log: Logger): RequestHandler {
  let isLogged = false;
  return (req, _res, next) => {
    if (!isLogged && "x-forwarded-for" in req.headers) {
      isLogged = true;
      log.warn({}, PROXY_NOT_TRUSTED);
    }
    next();
  };
}

const PROXY_NOT_TRUSTED =
  "a request has X-Forwarded-For, but TRUST_PROXY is 0: behind a reverse proxy, all clients share one limit of bad keys. If there is one, set TRUST_PROXY to the number of proxies";

/** Paths outside `/v1`, on either port. */
const OTHER_ROUTES: [pattern: RegExp, route: string][] = [
  [/^\/(?:livez|readyz|docs|openapi\.json|llms\.txt|metrics)?$/, "$&"],
  [/^\/docs\/[^/]*\/?$/, "/docs/{page}"],
  [/^\/docs\/[^/]+\/[^/]+$/, "/docs/{hash}/{file}"],
  [/^\/trpc\/[^/]*$/, "/trpc/{procedure}"],
  [/^\/console\/trpc\/[^/]*$/, "/console/trpc/{procedure}"],
  [/^\/console\/session$/, "$&"],
  [/^\/console\/assets\/[^/]*$/, "/console/assets/{file}"],
  [/^\/console(?:\/.*)?$/, "/console/{page}"],
];

/**
 * Names a request in logs and metrics: the template of its path, and the operation, even if the request was rejected before
 * it was called. Of an unknown path, segments that could be an id, a key or an address are masked. The request target is
 * not shown, because it may contain secrets.
 */
export function describeRoute({ method, originalUrl }: Request, { locals }: Response) {
  if (locals.operation) return { route: locals.operation.path, operation: locals.operation.name };
  const path = pathOf(originalUrl);
  const found = ROUTES.find(({ pattern }) => pattern.test(path));
  const verb = method === "HEAD" ? "GET" : method;
  if (found) {
    const { path: route = "" } = found.operations[0] ?? {};
    return { route, operation: found.operations.find((one) => one.method === verb)?.name };
  }
  const [pattern, route] = OTHER_ROUTES.find(([other]) => other.test(path)) ?? [];
  if (pattern && route) return { route: path.replace(pattern, route), operation: locals.procedure };
  return { route: "unknown", path: maskPath(path) };
}

/** Load balancers request these several times a second. */
const HEALTH_CHECKS: ReadonlySet<string> = new Set(["/livez", "/readyz"]);

/** The path of a request target, without scheme and authority, which may contain a password. */
const pathOf = (target: string) => target.replace(/^https?:\/\/[^/?]*/i, "").split("?", 1)[0] ?? "";

/** A word or a version. Public ids and keys are longer, or have digits. */
const UNMASKED = /^(?:[a-z][a-z_-]{0,19}|v\d{1,2}|)$/i;
const MAX_SEGMENTS = 8;

function maskPath(path: string): string {
  const segments = path.split("/", MAX_SEGMENTS + 2);
  const shown = segments.slice(0, MAX_SEGMENTS + 1).map((segment) => (UNMASKED.test(segment) ? segment : "*"));
  return [...shown, ...(segments.length > MAX_SEGMENTS + 1 ? ["…"] : [])].join("/");
}

/**
 * Passes the requests that are admitted to an Express application, with the path and query in `req.url` exactly as sent. Removes
 * the scheme and authority of an absolute target, and encodes `#`. Otherwise Express calls `url.parse`, which drops everything
 * after a `#`, and throws on an invalid authority, which Express answers in HTML.
 */
export const requestListener =
  (app: Express) =>
  (req: IncomingMessage, res: ServerResponse): void => {
    if (!isAdmitted(req, res)) return;
    const target = (req.url ?? "").replace(/^https?:\/\/[^/?]*/i, "").replaceAll("#", "%23");
    req.url = target.startsWith("/") ? target : `/${target}`;
    app(req, res);
  };

/** The value of a header; undefined if absent. VALIDATION_ERROR if it was sent more than once. */
export function singleHeader({ headersDistinct }: Request, name: string): string | undefined {
  const [value, ...more] = headersDistinct[name] ?? [];
  if (more.length > 0) throw invalid([{ field: name, issue: "must be sent once" }]);
  return value;
}

/** Requires one Host header. Node's own check does not respond with the envelope. */
export const requireHost: RequestHandler = (req, res, next) => {
  const hosts = req.headersDistinct.host?.length ?? 0;
  if (hosts > 1 || (hosts === 0 && req.httpVersion === "1.1")) {
    res.setHeader("Connection", "close");
    throw invalid([{ field: "request", issue: "must have one Host header" }]);
  }
  next();
};

/** Forbids caches to store the response. */
export const noStore: RequestHandler = (_req, res, next) => {
  res.setHeader("Cache-Control", "no-store");
  next();
};

/** Ends a response with JSON text; one with status 204 without any. A HEAD request gets the same headers and no body. */
export function sendJson(res: Response, json = ""): void {
  if (res.statusCode === 204) {
    res.removeHeader("Content-Type");
    res.end();
    return;
  }
  res.setHeader("Content-Type", "application/json; charset=utf-8");
  const bytes = Buffer.byteLength(json);
  res.setHeader("Content-Length", bytes);
  // ASCII is sent faster as latin1.
  res.end(json, bytes === json.length ? "latin1" : "utf8");
}
