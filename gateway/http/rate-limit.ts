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
import { RedisStore } from "rate-limit-redis";
import type { Settings } from "../../server/config.js";
import { ServiceError } from "../../server/errors.js";
import type { Redis } from "../process/redis.js";

/** Limits the requests of each key per window. */
export function limitRate(settings: Settings, store: Store): RequestHandler {
  const setHeaders = rateLimitHeaders(settings);
  const limit = rateLimit({
    windowMs: settings.RATE_LIMIT_WINDOW_SECONDS * 1000,
    limit: settings.RATE_LIMIT_MAX,
    standardHeaders: false,
    legacyHeaders: false,
    // The library's checks are for limits by address.
    validate: false,
    keyGenerator: (_req, res) => res.locals.principal.keyId,
    handler(req, res, next, options) {
      setHeaders(req, res);
      rejectRateLimited(req, res, next, options);
    },
    store,
  });
  return (req, res, next) =>
    limit(req, res, (error?: unknown) => {
      if (!error) setHeaders(req, res);
      next(error);
    });
}

/**
 * Returns a function that sets the headers of draft-ietf-httpapi-ratelimit-headers-08. The library would hash the
 * partition key on every request, which costs 18 µs. Here it is hashed once per key.
 */
function rateLimitHeaders({ RATE_LIMIT_MAX: quota, RATE_LIMIT_WINDOW_SECONDS: seconds }: Settings) {
  const name = `"${quota}-in-${seconds % 60 ? `${seconds}sec` : `${seconds / 60}min`}"`;
  const policies = new LRUCache<string, string>({
    max: 10_000,
    memoMethod: (keyId) => `${name}; q=${quota}; w=${seconds}; pk=:${partitionOf(keyId)}:`,
  });
  return (req: Request, res: Response) => {
    if (res.headersSent) return;
    const { key, remaining, resetTime } = (req as Limited).rateLimit;
    const secondsLeft = resetTime ? Math.max(0, Math.ceil((resetTime.getTime() - Date.now()) / 1000)) : seconds;
    res.setHeader("RateLimit", `${name}; r=${remaining}; t=${secondsLeft}`);
    res.setHeader("RateLimit-Policy", policies.memo(key));
  };
}

const partitionOf = (keyId: string) => btoa(hash("sha256", keyId).slice(0, 12));

type Limited = Request & { rateLimit: RateLimitInfo };

/** Handler of a limiter: RATE_LIMITED, with the seconds until the window ends. */
export const rejectRateLimited: Options["handler"] = (req, _res, next) => {
  const { resetTime } = (req as Limited).rateLimit;
  const retryAfter = resetTime ? (resetTime.getTime() - Date.now()) / 1000 : 1;
  next(new ServiceError("RATE_LIMITED", { retryAfter }));
};

/** Counts hits in this process's memory. */
export class LocalStore extends MemoryStore {
  /** MemoryStore returns its own entry, in which concurrent requests would all read the latest count. */
  override increment(key: string): Promise<IncrementResponse> {
    const counted = super.increment(key);
    const entry = this.current.get(key);
    return entry ? Promise.resolve({ ...entry }) : counted;
  }
}

/** Counts hits of all processes in Redis, and in this process's memory while Redis is lost. */
export function sharedStore(redis: Redis, prefix: string, onFallback?: () => void): Store {
  const memory = new LocalStore();
  const sendCommand = (...command: string[]) => redis.send(command) as Promise<never>;
  const shared = new RedisStore({ prefix, sendCommand });
  return {
    localKeys: false,
    prefix,
    init(options) {
      memory.init(options);
      redis.onConnect(async () => {
        // Load the scripts again: a restarted Redis has lost them.
        await shared.init(options);
        // A Redis that is full, loading or a replica responds, but cannot count.
        await shared.increment("probe");
      });
    },
    async increment(key) {
      if (redis.isUp()) {
        try {
          return await shared.increment(key);
        } catch {
          // Redis is lost: count this hit in memory.
        }
      }
      onFallback?.();
      return memory.increment(key);
    },
    // Called only with options that are not used here.
    decrement() {},
    resetKey() {},
    shutdown: () => memory.shutdown(),
  };
}
