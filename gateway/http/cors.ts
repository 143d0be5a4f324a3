import cors from "cors";
import type { RequestHandler } from "express";
import type { Settings } from "../../server/config.js";
import { OPERATIONS } from "./operations.js";

/** Lets pages of the configured origins (CORS_ORIGINS) call the interface; by default there are none. */
export function allowOrigins({ CORS_ORIGINS }: Settings): RequestHandler[] {
  if (!CORS_ORIGINS) return [];
  return [
    cors({
      origin: CORS_ORIGINS.includes("*") ? "*" : CORS_ORIGINS,
      methods: ["GET", "HEAD", ...METHODS],
      allowedHeaders: [
        "Authorization",
        "X-API-Key",
        "Content-Type",
        ...REQUEST_HEADERS,
        "X-Guest-Forms-Client",
      ],
      exposedHeaders: [
        "X-Correlation-Id",
        "Location",
        ...RESPONSE_HEADERS,
        "Retry-After",
        "RateLimit",
        "RateLimit-Policy",
      ],
      maxAge: 600,
      // `answerOptions` answers instead, because it sends `Allow` too.
      preflightContinue: true,
    }),
  ];
}

const METHODS = new Set(OPERATIONS.map(({ method }) => method).filter((method) => method !== "GET"));
const REQUEST_HEADERS = new Set(OPERATIONS.flatMap(({ requestHeaders }) => Object.keys(requestHeaders)));
const RESPONSE_HEADERS = new Set(OPERATIONS.flatMap(({ responseHeaders }) => Object.keys(responseHeaders)));

/** Answers the preflight request for an unknown path, so that a page may then see the 404. */
export const answerPreflight: RequestHandler = (req, res, next) => {
  const isPreflight = req.method === "OPTIONS" && req.headers["access-control-request-method"];
  if (isPreflight && res.hasHeader("Access-Control-Allow-Origin")) res.status(204).end();
  else next();
};
