import cors from "cors";
import type { RequestHandler } from "express";
import type { Settings } from "../../server/config.js";
import { OPERATIONS } from "../operations/operations.js";

/** Allows browser pages of the origins in CORS_ORIGINS to call the API. By default none. */
export function allowOrigins({ CORS_ORIGINS }: Settings): RequestHandler[] {
  if (!CORS_ORIGINS) return [];
  return [
    cors({
      origin: CORS_ORIGINS.includes("*") ? "*" : CORS_ORIGINS,
      methods: ["GET", "HEAD", ...METHODS],
      allowedHeaders: ["Authorization", "X-API-Key", "Content-Type", ...REQUEST_HEADERS, "X-Guest-Forms-Client"],
      exposedHeaders: [
        "X-Correlation-Id",
        "Location",
        ...RESPONSE_HEADERS,
        "Retry-After",
        "RateLimit",
        "RateLimit-Policy",
      ],
      maxAge: 600,
      // `answerOptions` responds instead, with `Allow`.
      preflightContinue: true,
    }),
  ];
}

const METHODS = new Set(OPERATIONS.map(({ method }) => method).filter((method) => method !== "GET"));
const REQUEST_HEADERS = new Set(OPERATIONS.flatMap(({ requestHeaders }) => Object.keys(requestHeaders)));
const RESPONSE_HEADERS = new Set(OPERATIONS.flatMap(({ responseHeaders }) => Object.keys(responseHeaders)));

/** Answers the preflight request for an unknown path, so that the page can read the 404. */
export const answerPreflight: RequestHandler = (req, res, next) => {
  const isPreflight = req.method === "OPTIONS" && req.headers["access-control-request-method"];
  if (isPreflight && res.hasHeader("Access-Control-Allow-Origin")) res.status(204).end();
  else next();
};
