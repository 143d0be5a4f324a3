import cors from "cors";
import type { RequestHandler } from "express";
import type { Settings } from "../../server/config.js";

/** Lets pages of the configured origins call the interface; no origin is allowed unless named (CORS_ORIGINS). */
export function allowOrigins({ CORS_ORIGINS }: Settings): RequestHandler[] {
  if (!CORS_ORIGINS) return [];
  return [
    cors({
      origin: CORS_ORIGINS.includes("*") ? "*" : CORS_ORIGINS,
      methods: ["GET", "HEAD", "POST", "PUT"],
      allowedHeaders: [
        "Authorization",
        "X-API-Key",
        "Content-Type",
        "Idempotency-Key",
        "X-Guest-Forms-Client",
      ],
      exposedHeaders: [
        "X-Correlation-Id",
        "Location",
        "Idempotent-Replayed",
        "Retry-After",
        "RateLimit",
        "RateLimit-Policy",
      ],
      maxAge: 600,
      // The answer to OPTIONS is ours: it says Allow too.
      preflightContinue: true,
    }),
  ];
}
