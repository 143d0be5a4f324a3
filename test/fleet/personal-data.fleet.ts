import { createClient } from "@redis/client";
import { expect, it } from "vitest";
import { freePort } from "../harness.js";
import { captureOutput, findSecrets } from "../server/personal-data.js";
import { describeWithBinary } from "./describe-with-binary.js";
import { createRedis } from "./external-server.js";

describeWithBinary("redis-server", "personal data with Redis", (binary) => {
  it("API keys and guest emails appear in no Redis key or value, log line or response", async () => {
    const redis = createRedis(binary, await freePort());
    await redis.start();
    const url = `redis://127.0.0.1:${redis.port}`;
    const { logs, responses, secrets } = await captureOutput({ REDIS_URL: url });
    const client = createClient({ url });
    await client.connect();
    const entries: string[] = [];
    for (const name of await client.keys("*")) {
      const value =
        (await client.type(name)) === "string" ? await client.get(name) : await client.hGetAll(name);
      entries.push(`${name} ${JSON.stringify(value)}`);
    }
    await client.close();
    expect(entries.length, "rate-limit entries in Redis").toBeGreaterThan(0);
    for (const text of [entries.join("\n"), logs, responses]) expect(findSecrets(text, secrets)).toEqual([]);
  }, 180_000);
});
