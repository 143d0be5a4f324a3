import { randomBytes } from "node:crypto";
import { Agent } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { mint } from "../../server/keys/authenticator.js";
import { call } from "../fleet/client.js";
import { type Host, makeWorld, startHost, type World } from "../fleet/fleet.js";
import { DatabaseProxy } from "../gateway-harness.js";
import { quantile } from "./tool.js";

/** The default of BAD_KEY_LIMIT_MAX, a minute. */
const LIMIT = 100;
const GUESSES = 300;
const MALFORMED = 2_000;

describe("guessing keys", () => {
  let world: World;
  let host: Host;
  let proxy: DatabaseProxy;
  const agent = new Agent({ keepAlive: true });

  beforeAll(async () => {
    world = await makeWorld();
    proxy = await DatabaseProxy.start(world.services.db.url);
    const { BAD_KEY_LIMIT_MAX: _default, ...env } = world.env;
    host = await startHost({ ...env, DATABASE_URL: proxy.url });
  });
  afterAll(() => proxy.close());

  const ask = (key: string | undefined) => call(`${host.url}/v1/listings`, key, { agent });

  /** What cannot be a key: none, of another form, and one in which a character is wrong. */
  const malformed: (() => string | undefined)[] = [
    () => undefined,
    () => randomBytes(32).toString("hex"),
    () => `grf_rw_${randomBytes(24).toString("hex")}0`,
    () => {
      const key = mint("READ_WRITE");
      return key.slice(0, 20) + (key[20] === "a" ? "b" : "a") + key.slice(21);
    },
  ];

  it("is refused with 429 over the limit of an address, and hinders no holder", async () => {
    const guesses: number[] = [];
    const valid: number[] = [];
    for (let n = 0; n < GUESSES; n++) {
      const [guess, holder] = await Promise.all([
        ask(mint(n % 2 ? "READ_WRITE" : "READ_ONLY")),
        ask(world.key.key),
      ]);
      guesses.push(guess.status);
      if (guess.status === 429) expect(Number(guess.headers["retry-after"])).toBeLessThanOrEqual(60);
      valid.push(holder.status);
    }
    const [refused, limited] = [401, 429].map((status) => guesses.filter((one) => one === status).length);
    console.info(
      `${GUESSES} guesses: ${refused} times 401, ${limited} times 429; ${valid.length} of ${GUESSES} requests of a holder served`,
    );
    // A window may end on the way.
    expect(refused).toBeGreaterThanOrEqual(LIMIT);
    expect(refused).toBeLessThanOrEqual(2 * LIMIT);
    expect(Number(refused) + Number(limited)).toBe(GUESSES);
    expect(new Set(valid)).toEqual(new Set([200]));
  });

  it("with what cannot be a key costs the database nothing: the answer comes while that is frozen", async () => {
    proxy.freeze();
    const times: number[] = [];
    for (let n = 0; n < MALFORMED; n++) {
      const { status, sentAt, cameAt } = await ask(malformed[n % malformed.length]?.());
      expect(status).toBe(401);
      times.push(cameAt - sentAt);
    }
    // So that it is shown to be frozen: this one has to be looked up.
    expect((await ask(mint("READ_WRITE"))).status).toBe(503);
    proxy.restore();
    console.info(
      `${MALFORMED} malformed keys refused without the database, p99 ${quantile(times, 0.99).toFixed(1)} ms`,
    );
    expect(quantile(times, 0.99)).toBeLessThan(500);
  });
});
