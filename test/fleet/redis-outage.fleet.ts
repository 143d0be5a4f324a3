import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "@redis/client";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { createRedis, type ExternalServer } from "../support/external-server.js";
import { makeKey, type TestKey } from "../support/factories.js";
import {
  countLogLines,
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcesses,
} from "../support/gateway-processes.js";
import { countOutcomes, type Load, sendRequest, slowestMs, startLoad } from "../support/http-client.js";
import { freePort } from "../support/network.js";

const LIMIT = 40;
const MAX_RESPONSE_MS = 500;
const MAX_RECOVERY_MS = 2_000;
const LOST_MESSAGE = "Redis is unavailable";
const BACK_MESSAGE = "Redis is available again";

describeWithBinary("redis-server", "a Redis outage", (binary) => {
  let fixture: Fixture;
  let redis: ExternalServer;
  let gateways: GatewayProcess[];
  /** Enough keys that the load stays below the rate limit of each. */
  let keys: TestKey[];
  let load: Load;
  let offsets: number[];
  const agent = new Agent({ keepAlive: true });

  beforeAll(async () => {
    fixture = await makeFixture();
    keys = await Promise.all(Array.from({ length: 150 }, () => makeKey(fixture.services, fixture.userId)));
    redis = createRedis(binary, await freePort());
    gateways = await startGatewayProcesses(2, {
      ...fixture.env,
      REDIS_URL: `redis://127.0.0.1:${redis.port}`,
      RATE_LIMIT_MAX: String(LIMIT),
      // Short, so that the counts of one test are gone in the next.
      RATE_LIMIT_WINDOW_SECONDS: "8",
    });
    offsets = gateways.map(() => 0);
    let requestCount = 0;
    const sendNext = () => sendRequest(urlOf(++requestCount), keys[requestCount % keys.length]?.key, { agent });
    load = startLoad(6, sendNext, 30);
    // Warm-up: the first requests of a process are slower than an outage makes them.
    await sleep(3_000);
  });
  afterAll(async () => {
    await load.stop();
    agent.destroy();
  });

  const urlOf = (index: number) => `${gateways[index % gateways.length]?.url}/v1/listings?limit=1`;

  /** Sends `count` requests with a new key to the first `processes` gateways in turn, and counts those that pass. */
  const countPassing = async (count: number, processes = gateways.length) => {
    const { key } = await makeKey(fixture.services, fixture.userId);
    let passed = 0;
    for (let index = 0; index < count; index++)
      passed += (await sendRequest(urlOf(index % processes), key)).status === 200 ? 1 : 0;
    return passed;
  };

  const countLogged = (text: string) => gateways.map((gateway, index) => countLogLines(gateway, text, offsets[index]));

  /** Returns the milliseconds until every process counts in Redis again. */
  const measureRecovery = async () => {
    const began = performance.now();
    const client = await connect();
    try {
      for (const { url } of gateways) {
        for (;;) {
          const { id, key } = await makeKey(fixture.services, fixture.userId);
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

  const connect = () =>
    createClient({ url: `redis://127.0.0.1:${redis.port}` })
      .on("error", () => {})
      .connect();

  const setReplicaOf = async (...primary: string[]) => {
    const client = await connect();
    await client.sendCommand(["REPLICAOF", ...primary]);
    client.destroy();
  };

  it.each<[string, breakRedis: () => void | Promise<void>, restoreRedis: () => void | Promise<void>]>([
    ["is down at startup", () => {}, () => redis.start()],
    ["is killed and restarts empty", () => redis.kill(), () => redis.start()],
    ["hangs", () => redis.signal("SIGSTOP"), () => redis.signal("SIGCONT")],
    ["rejects writes", () => setReplicaOf("127.0.0.1", "1"), () => setReplicaOf("NO", "ONE")],
  ])(
    "if Redis %s, every request is served within 500 ms, each process counts on its own and logs it once, and within 2 s of its return all share a count",
    async (name, breakRedis, restoreRedis) => {
      load.responses.length = 0;
      await breakRedis();
      await expect.poll(() => countLogged(LOST_MESSAGE)).toEqual([1, 1]);
      expect(await countPassing(LIMIT + 10, 1), "one process counts in memory").toBe(LIMIT);
      await sleep(2_500);
      await restoreRedis();
      const recoveryMs = await measureRecovery();
      await expect.poll(() => countLogged(BACK_MESSAGE)).toEqual([1, 1]);
      expect(await countPassing(LIMIT + 10), "both processes share a count").toBe(LIMIT);
      expect(countLogged(LOST_MESSAGE)).toEqual([1, 1]);
      expect(load.errors).toEqual([]);
      expect(Object.keys(countOutcomes(load))).toEqual(["200"]);
      const worstMs = slowestMs(load.responses);
      console.info(
        `${name}: ${load.responses.length} responses, slowest ${worstMs.toFixed()} ms; counting again after ${recoveryMs.toFixed()} ms`,
      );
      expect(worstMs).toBeLessThan(MAX_RESPONSE_MS);
      expect(recoveryMs).toBeLessThan(MAX_RECOVERY_MS);
      offsets = gateways.map(({ process }) => process.stderr.length);
    },
  );
});
