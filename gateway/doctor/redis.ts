import { connectionTo } from "../process/redis.js";
import { type Check, ok } from "./check.js";
import { checkConnection } from "./check-connection.js";

export const redisCheck: Check = {
  name: "redis",
  async run({ settings: { REDIS_URL } }) {
    if (!REDIS_URL) return ok("REDIS_URL is not set: each process counts rate limits separately.");
    const client = connectionTo(REDIS_URL);
    client.on("error", () => {});
    return checkConnection("Redis", REDIS_URL, async () => {
      await client.connect();
      await client.ping();
    }).finally(() => client.destroy());
  },
};
