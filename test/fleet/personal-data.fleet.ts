import { createClient } from "@redis/client";
import { expect, it } from "vitest";
import { freePort } from "../harness.js";
import { captureOutput, findSecrets } from "../server/personal-data.js";
import { describeWith } from "./binaries.js";
import { redisServer } from "./servers.js";

describeWith("redis-server", "keys and guests' addresses", (binary) => {
  it("are in no key or value that Redis holds, nor in a log or an answer of those that use it", async () => {
    const redis = redisServer(binary, await freePort());
    await redis.start();
    const url = `redis://127.0.0.1:${redis.port}`;
    const { logs, responses, secrets } = await captureOutput({ REDIS_URL: url });
    const client = createClient({ url });
    await client.connect();
    const held: string[] = [];
    for (const name of await client.keys("*")) {
      const value =
        (await client.type(name)) === "string" ? await client.get(name) : await client.hGetAll(name);
      held.push(`${name} ${JSON.stringify(value)}`);
    }
    await client.close();
    expect(held.length, "Redis holds the limits").toBeGreaterThan(0);
    for (const text of [held.join("\n"), logs, responses]) expect(findSecrets(text, secrets)).toEqual([]);
  }, 180_000);
});
