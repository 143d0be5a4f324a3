import type { Store } from "express-rate-limit";
import { RedisStore } from "rate-limit-redis";
import type { Redis } from "../process/redis.js";
import { LocalStore } from "./rate-limit.js";

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
