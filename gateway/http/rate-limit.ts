import { hash } from "node:crypto";
import type { Request, RequestHandler, Response } from "express";
import { type ClientRateLimitInfo, type Options, type RateLimitInfo, rateLimit, type Store } from "express-rate-limit";
import { LRUCache } from "lru-cache";
import { RedisStore } from "rate-limit-redis";
import type { Settings } from "../../server/config.js";
import { ServiceError } from "../../server/errors.js";
import type { Redis } from "../runtime/redis.js";

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

/** Keys or addresses that are counted at once. Of more, those that have sent nothing for longest are forgotten. */
const MAX_COUNTED = 10_000;

/**
 * Counts hits in this process's memory. Windows end by the monotonic clock: the library's own store, which reads the system clock,
 * rejects a key for as long as that was set back.
 */
export class LocalStore implements Store {
  /** By key, until the window ends, which begins with the first hit. */
  readonly #hits = new LRUCache<string, number>({ max: MAX_COUNTED, ttlAutopurge: true, noUpdateTTL: true });
  #windowMs = 0;

  init({ windowMs }: Pick<Options, "windowMs">): void {
    this.#windowMs = windowMs;
  }

  /** Keys or addresses that are stored. */
  get size(): number {
    return this.#hits.size;
  }

  increment(key: string): ClientRateLimitInfo {
    const totalHits = (this.#hits.get(key) ?? 0) + 1;
    this.#hits.set(key, totalHits, { ttl: this.#windowMs });
    return { totalHits, resetTime: new Date(Date.now() + this.#hits.getRemainingTTL(key)) };
  }

  // Called only with options that are not used here.
  decrement(): void {}
  resetKey(): void {}
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
    decrement() {},
    resetKey() {},
  };
}
