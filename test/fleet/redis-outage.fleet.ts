import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "@redis/client";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeKey, type TestKey } from "../factories.js";
import { freePort } from "../harness.js";
import { describeWith } from "./binaries.js";
import { call, type Load, slowest, startLoad, tally } from "./client.js";
import { type Host, linesWith, makeWorld, startHosts, type World } from "./fleet.js";
import { redisServer, type Server } from "./servers.js";

const LIMIT = 40;
const ANSWER_MS = 500;
const BACK_MS = 2_000;
const LOST = "Redis is lost";
const BACK = "Redis is back";

describeWith("redis-server", "without Redis", (binary) => {
  let world: World;
  let redis: Server;
  let hosts: Host[];
  /** Many, for the load must not reach the limit of any. */
  let keys: TestKey[];
  let load: Load;
  let offsets: number[];
  const agent = new Agent({ keepAlive: true });

  beforeAll(async () => {
    world = await makeWorld();
    keys = await Promise.all(Array.from({ length: 150 }, () => makeKey(world.services, world.userId)));
    redis = redisServer(binary, await freePort());
    hosts = await startHosts(2, {
      ...world.env,
      REDIS_URL: `redis://127.0.0.1:${redis.port}`,
      RATE_LIMIT_MAX: String(LIMIT),
      // So that a key's count does not outlive a test of several.
      RATE_LIMIT_WINDOW_SECONDS: "8",
    });
    offsets = hosts.map(() => 0);
    let turn = 0;
    load = startLoad(
      6,
      () => {
        turn += 1;
        return call(at(turn), keys[turn % keys.length]?.key, { agent });
      },
      30,
    );
    // What a process does for the first time takes longer than anything Redis does to it.
    await sleep(3_000);
  });
  afterAll(async () => {
    await load.stop();
    agent.destroy();
  });

  const at = (index: number) => `${hosts[index % hosts.length]?.url}/v1/listings?limit=1`;

  /** How many of so many requests pass, by turns over the processes, with a key of its own. */
  const passing = async (count: number, turns = hosts.length) => {
    const { key } = await makeKey(world.services, world.userId);
    let passed = 0;
    for (let index = 0; index < count; index++)
      passed += (await call(at(index % turns), key)).status === 200 ? 1 : 0;
    return passed;
  };

  const said = (text: string) => hosts.map((host, index) => linesWith(host, text, offsets[index]));

  /** Milliseconds until the processes count in Redis again. */
  const untilCounting = async () => {
    const began = performance.now();
    const client = createClient({ url: `redis://127.0.0.1:${redis.port}` });
    client.on("error", () => {});
    await client.connect();
    try {
      for (const { url } of hosts) {
        for (;;) {
          const { id, key } = await makeKey(world.services, world.userId);
          await call(`${url}/v1/listings?limit=1`, key);
          if (await client.exists(`guest-forms:key:${id}`)) break;
          if (performance.now() - began > 3 * BACK_MS) throw new Error("Redis is not counting again.");
          await sleep(20);
        }
      }
      return performance.now() - began;
    } finally {
      client.destroy();
    }
  };

  const begin = () => {
    load.answers.length = 0;
    offsets = hosts.map(({ process }) => process.stderr.length);
  };

  /** Loses Redis and finds it again, under load: what is promised meanwhile and afterwards. */
  const outage = async (name: string, lose: () => void | Promise<void>, find: () => void | Promise<void>) => {
    await lose();
    await expect.poll(() => said(LOST)).toEqual([1, 1]);
    expect(await passing(LIMIT + 10, 1), "one process counts in its memory").toBe(LIMIT);
    await sleep(2_500);
    await find();
    const back = await untilCounting();
    await expect.poll(() => said(BACK)).toEqual([1, 1]);
    expect(await passing(LIMIT + 10), "both processes count together").toBe(LIMIT);
    expect(said(LOST)).toEqual([1, 1]);
    expect(load.broken).toEqual([]);
    expect(Object.keys(tally(load))).toEqual(["200"]);
    const worst = slowest(load.answers);
    console.info(
      `${name}: ${load.answers.length} answers, slowest ${worst.toFixed()} ms; counting again after ${back.toFixed()} ms`,
    );
    expect(worst).toBeLessThan(ANSWER_MS);
    expect(back).toBeLessThan(BACK_MS);
  };

  it("that is absent at boot, every request is answered, until it is there", async () => {
    load.answers.length = 0;
    await outage(
      "absent at boot",
      () => {},
      () => redis.start(),
    );
  });

  it("that is killed and comes back empty, every request is answered", async () => {
    begin();
    await outage(
      "killed, back empty",
      () => redis.kill(),
      () => redis.start(),
    );
  });

  it("that is frozen, every request is answered", async () => {
    begin();
    await outage(
      "frozen",
      () => redis.signal("SIGSTOP"),
      () => redis.signal("SIGCONT"),
    );
  });

  it("that refuses to write, every request is answered", async () => {
    begin();
    const client = createClient({ url: `redis://127.0.0.1:${redis.port}` });
    await client.connect();
    await outage(
      "read-only",
      async () => {
        await client.sendCommand(["REPLICAOF", "127.0.0.1", "1"]);
      },
      async () => {
        await client.sendCommand(["REPLICAOF", "NO", "ONE"]);
      },
    );
    client.destroy();
  });
});
