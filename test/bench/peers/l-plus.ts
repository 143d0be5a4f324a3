// Peer L+: peer L with what the service promises for every request: a correlation id, the same headers, one log line, and a
// rate limit per key.
import { createHash, randomUUID } from "node:crypto";
import type { FastifyInstance } from "fastify";
import pino from "pino";
import { settings } from "./shared.js";

declare module "fastify" {
  interface FastifyRequest {
    correlationId: string;
    began: number;
  }
}

const HEADERS = {
  "Content-Security-Policy": "default-src 'none';frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Cache-Control": "no-store",
};

const LIMIT = settings.rateLimit;
const WINDOW_MS = 60_000;
const POLICY = `"${LIMIT}-in-1min"`;

interface Window {
  hits: number;
  endsAt: number;
  policy: string;
}

const windows = new Map<string, Window>();

function openWindow(keyId: string, endsAt: number): Window {
  const partition = btoa(createHash("sha256").update(keyId).digest("hex").slice(0, 12));
  const window = { hits: 0, endsAt, policy: `${POLICY}; q=${LIMIT}; w=60; pk=:${partition}:` };
  windows.set(keyId, window);
  return window;
}

export function addPromises(app: FastifyInstance): void {
  const log = pino(pino.destination({ fd: 2, sync: false }));

  app.decorateRequest("correlationId", "");
  app.decorateRequest("began", 0);

  app.addHook("onRequest", (request, reply, done) => {
    request.began = performance.now();
    request.correlationId = randomUUID();
    reply.headers(HEADERS).header("X-Correlation-Id", request.correlationId);
    done();
  });

  app.addHook("onResponse", (request, reply, done) => {
    const { correlationId, apiKey, method, routeOptions } = request;
    log.info(
      {
        correlationId,
        keyId: apiKey?.id,
        userId: apiKey?.userId,
        method,
        route: routeOptions.url,
        status: reply.statusCode,
        ms: Math.round((performance.now() - request.began) * 100) / 100,
      },
      "request",
    );
    done();
  });

  // After authentication, which is a hook of the routes' `onRequest`.
  app.addHook("preParsing", (request, reply, payload, done) => {
    if (!request.apiKey) return done(null, payload);
    const now = Date.now();
    let window = windows.get(request.apiKey.id);
    if (!window || window.endsAt <= now) window = openWindow(request.apiKey.id, now + WINDOW_MS);
    window.hits++;
    const secondsLeft = Math.ceil((window.endsAt - now) / 1000);
    reply.header("RateLimit", `${POLICY}; r=${Math.max(0, LIMIT - window.hits)}; t=${secondsLeft}`);
    reply.header("RateLimit-Policy", window.policy);
    if (window.hits > LIMIT) reply.code(429).send({ code: "RATE_LIMITED" });
    else done(null, payload);
  });
}
