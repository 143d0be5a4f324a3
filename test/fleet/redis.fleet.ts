import { Agent } from "node:http";
import { createClient } from "@redis/client";
import { beforeAll, expect, it } from "vitest";
import { examine } from "../../gateway/doctor/examine.js";
import { readSettings } from "../../server/config.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { describeWithBinary } from "../support/describe-with-binary.js";
import { createRedis } from "../support/external-server.js";
import { makeKey } from "../support/factories.js";
import { type Fixture, type GatewayProcess, makeFixture, startGatewayProcesses } from "../support/gateway-processes.js";
import { sendRequest } from "../support/http-client.js";
import { freePort } from "../support/network.js";
import { captureOutput, findSecrets } from "../support/personal-data.js";
import { countStatuses } from "../support/traffic.js";

const LIMIT = 100;
const BAD_KEY_LIMIT = 20;

describeWithBinary("redis-server", "with Redis", (binary) => {
  let fixture: Fixture;
  let redisUrl: string;
  let gateways: GatewayProcess[];

  beforeAll(async () => {
    const redis = createRedis(binary, await freePort());
    redisUrl = `redis://127.0.0.1:${redis.port}`;
    expect(await checkRedis()).toMatchObject({ status: "failed" });
    await redis.start();
    fixture = await makeFixture();
    gateways = await startGatewayProcesses(4, {
      ...fixture.env,
      REDIS_URL: `${redisUrl}/0`,
      RATE_LIMIT_MAX: String(LIMIT),
      BAD_KEY_LIMIT_MAX: String(BAD_KEY_LIMIT),
      // A third of it is the longest wait of a request for the others of its key: of those that wait longer, none is counted.
      DATABASE_CONNECT_TIMEOUT_MS: "15000",
    });
  });

  const checkRedis = async () => {
    const env = { REDIS_URL: redisUrl };
    const reports = await examine({ settings: readSettings(env), env, processes: 1, worker: true });
    return reports.find(({ name }) => name === "redis");
  };

  it("`doctor` reports whether Redis responds", async () => {
    const message = `Redis at ${new URL(redisUrl).host} answers.`;
    expect(await checkRedis()).toEqual({ name: "redis", status: "ok", message });
  });

  const urlOf = (index: number, targets = gateways) => `${targets[index % targets.length]?.url}/v1/listings`;

  it("exactly 100 of 400 concurrent requests across 4 processes pass a limit of 100, each counted once, and the others get 429 with Retry-After", async () => {
    const agent = new Agent({ keepAlive: true });
    const { key: warmUpKey } = await makeKey(fixture.services, fixture.userId);
    await Promise.all(Array.from({ length: 40 }, (_, index) => sendRequest(urlOf(index), warmUpKey, { agent })));
    for (let round = 1; round <= 3; round++) {
      // All keys are of one holder: each has its own limit.
      const { key } = await makeKey(fixture.services, fixture.userId);
      const responses = await Promise.all(
        Array.from({ length: 400 }, (_, index) => sendRequest(urlOf(index), key, { agent })),
      );
      const passed = responses.filter(({ status }) => status === 200);
      const limited = responses.filter(({ status }) => status === 429);
      expect(countStatuses(responses)).toEqual({ 200: LIMIT, 429: 400 - LIMIT });
      const remaining = passed.map(({ headers }) => Number(/r=(\d+)/.exec(String(headers.ratelimit))?.[1]));
      expect(remaining.sort((one, other) => one - other)).toEqual(Array.from({ length: LIMIT }, (_, n) => n));
      for (const { headers } of limited) expect(headers["retry-after"]).toMatch(/^([1-9]|[1-5]\d|60)$/);
    }
    agent.destroy();
  });

  /** Sends well-formed keys that were never issued, to each process in turn. */
  const sendBadKeys = async (targets: GatewayProcess[], count: number, forwardedFor: (index: number) => string) => {
    const statuses: number[] = [];
    for (let index = 0; index < count; index++) {
      const headers = { "X-Forwarded-For": forwardedFor(index) };
      statuses.push((await sendRequest(urlOf(index, targets), generateKey("READ_WRITE"), { headers })).status);
    }
    return statuses;
  };
  const limitedAfterMax = [...Array(BAD_KEY_LIMIT).fill(401), 429, 429, 429];

  it("unknown keys are counted per client address across all processes, and a forged X-Forwarded-For is ignored", async () => {
    const statuses = await sendBadKeys(gateways, BAD_KEY_LIMIT + 3, (index) => `203.0.113.${index}`);
    expect(statuses).toEqual(limitedAfterMax);
    const { key } = await makeKey(fixture.services, fixture.userId);
    expect((await sendRequest(urlOf(1), key)).status, "a valid key from the same address").toBe(200);
  });

  it("with TRUST_PROXY=1, unknown keys are counted per address that the proxy appends: per IPv4 address, per IPv6 /56", async () => {
    const proxied = await startGatewayProcesses(2, {
      ...fixture.env,
      REDIS_URL: `${redisUrl}/1`,
      BAD_KEY_LIMIT_MAX: String(BAD_KEY_LIMIT),
      TRUST_PROXY: "1",
    });
    const send = (forwardedFor: (index: number) => string) => sendBadKeys(proxied, BAD_KEY_LIMIT + 3, forwardedFor);
    expect(await send((index) => `203.0.113.${index}, 198.51.100.7`)).toEqual(limitedAfterMax);
    expect(await send(() => "203.0.113.1, 198.51.100.8")).toEqual(limitedAfterMax);
    const hex = (index: number) => index.toString(16).padStart(2, "0");
    expect(await send((index) => `2001:db8:0:a0${hex(index).at(-1)}::${index + 1}`)).toEqual(limitedAfterMax);
    expect((await send((index) => `2001:db8:0:${hex(index + 16)}00::1`)).every((status) => status === 401)).toBe(true);
    expect(await send((index) => (index % 2 ? "::ffff:198.51.100.9" : "198.51.100.9"))).toEqual(limitedAfterMax);
    expect(await sendBadKeys(proxied, 1, () => "::ffff:198.51.100.10")).toEqual([401]);
  });

  it("API keys and guests' addresses are in no Redis key or value, log line or response", async () => {
    const { logs, responses, secrets } = await captureOutput({ REDIS_URL: `${redisUrl}/2` });
    const client = createClient({ url: `${redisUrl}/2` });
    await client.connect();
    const entries: string[] = [];
    for (const name of await client.keys("*")) {
      const isText = (await client.type(name)) === "string";
      const value = isText ? await client.get(name) : await client.hGetAll(name);
      entries.push(`${name} ${JSON.stringify(value)}`);
    }
    await client.close();
    expect(entries.length, "rate-limit entries in Redis").toBeGreaterThan(0);
    for (const text of [entries.join("\n"), logs, responses]) expect(findSecrets(text, secrets)).toEqual([]);
  });
});
