import { Agent } from "node:http";
import { beforeAll, expect, it } from "vitest";
import { generateKey } from "../../server/keys/authenticator.js";
import { makeKey } from "../factories.js";
import { freePort } from "../harness.js";
import { describeWith } from "./binaries.js";
import { type Answer, call } from "./client.js";
import { type Host, makeWorld, startHosts, type World } from "./fleet.js";
import { redisServer } from "./servers.js";

const LIMIT = 100;
const BAD_KEYS = 20;

describeWith("redis-server", "limits counted in Redis", (binary) => {
  let world: World;
  let redisUrl: string;
  let hosts: Host[];

  beforeAll(async () => {
    const redis = redisServer(binary, await freePort());
    await redis.start();
    redisUrl = `redis://127.0.0.1:${redis.port}`;
    world = await makeWorld();
    hosts = await startHosts(4, {
      ...world.env,
      REDIS_URL: `${redisUrl}/0`,
      RATE_LIMIT_MAX: String(LIMIT),
      BAD_KEY_LIMIT_MAX: String(BAD_KEYS),
    });
  });

  const at = (index: number, of = hosts) => `${of[index % of.length]?.url}/v1/listings`;

  it("of 400 requests at once over 4 processes exactly the allowed 100 pass, the others are told when to return", async () => {
    const agent = new Agent({ keepAlive: true });
    for (let round = 1; round <= 3; round++) {
      const { key } = await makeKey(world.services, world.userId);
      const answers = await Promise.all(
        Array.from({ length: 400 }, (_, index) => call(at(index), key, { agent })),
      );
      const passed = answers.filter(({ status }) => status === 200);
      const refused = answers.filter(({ status }) => status === 429);
      console.info(`round ${round}: ${passed.length} passed, ${refused.length} refused`);
      expect([passed.length, refused.length]).toEqual([LIMIT, 400 - LIMIT]);
      for (const { headers } of refused) expect(Number(headers["retry-after"])).toBeGreaterThanOrEqual(1);
    }
    agent.destroy();
  });

  it("two keys of one holder do not share a limit", async () => {
    const { key } = await makeKey(world.services, world.userId);
    expect((await call(at(0), key)).status).toBe(200);
  });

  /** Sends keys that nobody issued, over all processes in turn. */
  const sendBadKeys = async (of: Host[], count: number, from: (index: number) => string | undefined) => {
    const answers: Answer[] = [];
    for (let index = 0; index < count; index++) {
      const forwarded = from(index);
      const headers = forwarded === undefined ? {} : { "X-Forwarded-For": forwarded };
      answers.push(await call(at(index, of), generateKey("READ_WRITE"), { headers }));
    }
    return answers.map(({ status }) => status);
  };
  const refusedAfterLimit = [...Array(BAD_KEYS).fill(401), 429, 429, 429];

  it("bad keys are counted for a client address over all processes, whatever X-Forwarded-For it makes up", async () => {
    const malformed = await Promise.all(
      Array.from({ length: 30 }, (_, index) => call(at(index), "grf_rw_nonsense")),
    );
    expect(new Set(malformed.map(({ status }) => status))).toEqual(new Set([401]));
    const statuses = await sendBadKeys(hosts, BAD_KEYS + 3, (index) => `203.0.113.${index}`);
    expect(statuses).toEqual(refusedAfterLimit);
    const { key } = await makeKey(world.services, world.userId);
    expect((await call(at(1), key)).status, "a valid key from that address").toBe(200);
  });

  it("behind one trusted proxy the address is the one it adds: IPv4 singly, IPv6 by /56", async () => {
    const proxied = await startHosts(2, {
      ...world.env,
      REDIS_URL: `${redisUrl}/1`,
      BAD_KEY_LIMIT_MAX: String(BAD_KEYS),
      TRUST_PROXY: "1",
    });
    const send = (from: (index: number) => string) => sendBadKeys(proxied, BAD_KEYS + 3, from);
    expect(await send((index) => `203.0.113.${index}, 198.51.100.7`)).toEqual(refusedAfterLimit);
    expect(await send(() => "203.0.113.1, 198.51.100.8")).toEqual(refusedAfterLimit);
    const host = (index: number) => index.toString(16).padStart(2, "0");
    expect(await send((index) => `2001:db8:0:a0${host(index).at(-1)}::${index + 1}`)).toEqual(
      refusedAfterLimit,
    );
    expect(
      (await send((index) => `2001:db8:0:${host(index + 16)}00::1`)).every((status) => status === 401),
    ).toBe(true);
    expect(await send((index) => (index % 2 ? "::ffff:198.51.100.9" : "198.51.100.9"))).toEqual(
      refusedAfterLimit,
    );
    expect(await sendBadKeys(proxied, 1, () => "::ffff:198.51.100.10")).toEqual([401]);
  });
});
