import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { makeKey } from "../support/factories.js";
import { countLogLines } from "../support/gateway-processes.js";
import { countOutcomes, sendRequest } from "../support/http-client.js";
import { connectTo, LIMIT, OUTAGES, startGatewaysWithoutRedis } from "./redis-outage.js";

const MAX_RECOVERY_MS = 2_000;
const LOST_MESSAGE = "Redis is unavailable";
const BACK_MESSAGE = "Redis is available again";

describeWithBinary("redis-server", "a Redis outage", (binary) => {
  let service: Awaited<ReturnType<typeof startGatewaysWithoutRedis>>;
  let offsets: number[];

  beforeAll(async () => {
    service = await startGatewaysWithoutRedis(binary);
    offsets = service.gateways.map(() => 0);
  });

  /** Sends `count` requests with a new key to the first `processes` gateways in turn, and counts those that pass. */
  const countPassing = async (count: number, processes = service.gateways.length) => {
    const { key } = await makeKey(service.fixture.services, service.fixture.userId);
    let passed = 0;
    for (let index = 0; index < count; index++)
      passed += (await sendRequest(service.urlOf(index % processes), key)).status === 200 ? 1 : 0;
    return passed;
  };

  const countLogged = (text: string) =>
    service.gateways.map((gateway, index) => countLogLines(gateway, text, offsets[index]));

  /** Returns the milliseconds until every process counts in Redis again. */
  const measureRecovery = async () => {
    const began = performance.now();
    const client = await connectTo(service.redis);
    try {
      for (const { url } of service.gateways) {
        for (;;) {
          const { id, key } = await makeKey(service.fixture.services, service.fixture.userId);
          await sendRequest(`${url}/v1/listings?limit=1`, key);
          if (await client.exists(`guest-forms:key:${id}`)) break;
          if (performance.now() - began > 3 * MAX_RECOVERY_MS) throw new Error("Redis is not counting again.");
          await sleep(20);
        }
      }
      return performance.now() - began;
    } finally {
      client.destroy();
    }
  };

  it.each(OUTAGES)(
    "if Redis %s, every request is served, each process counts on its own and logs it once, and within 2 s of its return all share a count",
    async (name, breakRedis, restoreRedis) => {
      const { redis, gateways, load } = service;
      load.responses.length = 0;
      await breakRedis(redis);
      await expect.poll(() => countLogged(LOST_MESSAGE)).toEqual([1, 1]);
      expect(await countPassing(LIMIT + 10, 1), "one process counts in memory").toBe(LIMIT);
      await sleep(2_500);
      await restoreRedis(redis);
      const recoveryMs = await measureRecovery();
      await expect.poll(() => countLogged(BACK_MESSAGE)).toEqual([1, 1]);
      expect(await countPassing(LIMIT + 10), "both processes share a count").toBe(LIMIT);
      expect(countLogged(LOST_MESSAGE)).toEqual([1, 1]);
      expect(load.errors).toEqual([]);
      expect(Object.keys(countOutcomes(load))).toEqual(["200"]);
      console.info(`${name}: ${load.responses.length} responses; counting again after ${recoveryMs.toFixed()} ms`);
      expect(recoveryMs).toBeLessThan(MAX_RECOVERY_MS);
      offsets = gateways.map(({ process }) => process.stderr.length);
    },
  );
});
