import type { IncrementResponse, Options, Store } from "express-rate-limit";
import { RedisStore } from "rate-limit-redis";
import type { Redis } from "../process/redis.js";
import { LocalStore } from "./rate-limit.js";

/** Counts hits of all processes in Redis, and in this process's memory while Redis is lost. */
export class SharedStore implements Store {
  readonly localKeys = false;
  readonly prefix: string;
  readonly #memory = new LocalStore();
  readonly #shared: RedisStore;
  readonly #redis: Redis;
  readonly #onFallback: () => void;

  constructor(redis: Redis, prefix: string, onFallback: () => void = () => {}) {
    this.prefix = prefix;
    this.#onFallback = onFallback;
    this.#redis = redis;
    this.#shared = new RedisStore({
      prefix,
      sendCommand: (...command: string[]) => redis.send(command) as Promise<never>,
    });
  }

  init(options: Options): void {
    this.#memory.init(options);
    this.#redis.onConnect(async () => {
      // Load the scripts again: a restarted Redis has lost them.
      await this.#shared.init(options);
      // A Redis that is full, loading or a replica responds, but cannot count.
      await this.#shared.increment("probe");
    });
  }

  async increment(key: string): Promise<IncrementResponse> {
    if (this.#redis.isUp()) {
      try {
        return await this.#shared.increment(key);
      } catch {
        // Redis is lost: count this hit in memory.
      }
    }
    this.#onFallback();
    return this.#memory.increment(key);
  }

  // Called only with options that are not used here.
  decrement(): void {}
  resetKey(): void {}

  shutdown(): void {
    this.#memory.shutdown();
  }
}
