import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { slowestMs } from "../support/http-client.js";
import { OUTAGES, startGatewaysWithoutRedis } from "./redis-outage.js";

const OUTAGE_MS = 4_000;
/** Enough to connect again. */
const RECOVERY_MS = 2_000;
const MAX_RESPONSE_MS = 500;

describeWithBinary("redis-server", "a Redis outage", (binary) => {
  let service: Awaited<ReturnType<typeof startGatewaysWithoutRedis>>;

  beforeAll(async () => {
    service = await startGatewaysWithoutRedis(binary);
  });

  it.each(OUTAGES)("if Redis %s, every request is served within 500 ms", async (name, breakRedis, restoreRedis) => {
    const { redis, load } = service;
    load.responses.length = 0;
    await breakRedis(redis);
    await sleep(OUTAGE_MS);
    await restoreRedis(redis);
    await sleep(RECOVERY_MS);
    const worstMs = slowestMs(load.responses);
    console.info(`${name}: ${load.responses.length} responses, slowest ${worstMs.toFixed()} ms`);
    expect(load.errors).toEqual([]);
    expect(worstMs).toBeLessThan(MAX_RESPONSE_MS);
  });
});
