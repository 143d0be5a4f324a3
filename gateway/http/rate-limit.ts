import { hash } from "node:crypto";
import type { Request, RequestHandler, Response } from "express";
import {
  type IncrementResponse,
  MemoryStore,
  type Options,
  type RateLimitInfo,
  rateLimit,
  type Store,
} from "express-rate-limit";
import { LRUCache } from "lru-cache";
import type { Settings } from "../../server/config.js";
import { ServiceError } from "../../server/errors.js";

/** Allows each key so many requests per window. Counts by the key's id. */
export function limitRate(settings: Settings, store: Store): RequestHandler {
  const show = showLimit(settings);
  const limit = rateLimit({
    windowMs: settings.RATE_LIMIT_WINDOW_SECONDS * 1000,
    limit: settings.RATE_LIMIT_MAX,
    standardHeaders: false,
    legacyHeaders: false,
    // Its checks are about limits by address; this one is by key.
    validate: false,
    keyGenerator: (_req, res) => res.locals.principal.keyId,
    handler(req, res, next, options) {
      show(req, res);
      refuse(req, res, next, options);
    },
    store,
  });
  return (req, res, next) =>
    limit(req, res, (error?: unknown) => {
      if (!error) show(req, res);
      next(error);
    });
}

/**
 * Sets the headers of draft-ietf-httpapi-ratelimit-headers-08. The library's own code hashes the partition key at every
 * request, which costs 18 µs; here it is hashed once per key.
 */
function showLimit({ RATE_LIMIT_MAX: quota, RATE_LIMIT_WINDOW_SECONDS: seconds }: Settings) {
  const name = `"${quota}-in-${seconds % 60 ? `${seconds}sec` : `${seconds / 60}min`}"`;
  const policies = new LRUCache<string, string>({
    max: 10_000,
    memoMethod: (keyId) => `${name}; q=${quota}; w=${seconds}; pk=:${partitionOf(keyId)}:`,
  });
  return (req: Request, res: Response) => {
    if (res.headersSent) return;
    const { key, remaining, resetTime } = (req as Limited).rateLimit;
    const rest = resetTime ? Math.max(0, Math.ceil((resetTime.getTime() - Date.now()) / 1000)) : seconds;
    res.setHeader("RateLimit", `${name}; r=${remaining}; t=${rest}`);
    res.setHeader("RateLimit-Policy", policies.memo(key));
  };
}

const partitionOf = (keyId: string) => btoa(hash("sha256", keyId).slice(0, 12));

type Limited = Request & { rateLimit: RateLimitInfo };

/** The handler of a limiter: RATE_LIMITED with the seconds until the window ends, at least 1. */
export const refuse: Options["handler"] = (req, _res, next) => {
  const { resetTime } = (req as Limited).rateLimit;
  const wait = resetTime ? (resetTime.getTime() - Date.now()) / 1000 : 1;
  next(new ServiceError("RATE_LIMITED", { retryAfter: wait }));
};

/** Counts hits in this process's memory. */
export class LocalStore extends MemoryStore {
  /** MemoryStore answers with the entry itself, in which requests at once would all read the last one's count. */
  override increment(key: string): Promise<IncrementResponse> {
    const counted = super.increment(key);
    const entry = this.current.get(key);
    return entry ? Promise.resolve({ ...entry }) : counted;
  }
}
