import { randomBytes } from "node:crypto";
import { Agent } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { generateKey } from "../../server/keys/authenticator.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcess,
} from "../support/gateway-processes.js";
import { sendRequest } from "../support/http-client.js";
import { quantile } from "../support/statistics.js";
import { TcpProxy } from "../support/tcp-proxy.js";

/** The default BAD_KEY_LIMIT_MAX, per minute. */
const LIMIT = 100;
const GUESSES = 300;
const MALFORMED = 2_000;

describe("guessing keys", () => {
  let fixture: Fixture;
  let gateway: GatewayProcess;
  let proxy: TcpProxy;
  const agent = new Agent({ keepAlive: true });

  beforeAll(async () => {
    fixture = await makeFixture();
    proxy = await TcpProxy.start(fixture.services.db.url);
    const { BAD_KEY_LIMIT_MAX: _default, ...env } = fixture.env;
    gateway = await startGatewayProcess({ ...env, DATABASE_URL: proxy.url });
  });
  afterAll(() => proxy.close());

  const sendKey = (key: string | undefined) => sendRequest(`${gateway.url}/v1/listings`, key, { agent });

  /** No key, two of another format, and one with a mistyped character. */
  const malformedKeys: (() => string | undefined)[] = [
    () => undefined,
    () => randomBytes(32).toString("hex"),
    () => `grf_rw_${randomBytes(24).toString("hex")}0`,
    () => {
      const key = generateKey("READ_WRITE");
      return key.slice(0, 20) + (key[20] === "a" ? "b" : "a") + key.slice(21);
    },
  ];

  it("guesses over the limit per client address get 429, and valid keys from the same address are not affected", async () => {
    const guessStatuses: number[] = [];
    const holderStatuses: number[] = [];
    for (let n = 0; n < GUESSES; n++) {
      const [guess, holder] = await Promise.all([
        sendKey(generateKey(n % 2 ? "READ_WRITE" : "READ_ONLY")),
        sendKey(fixture.key.key),
      ]);
      guessStatuses.push(guess.status);
      if (guess.status === 429) expect(Number(guess.headers["retry-after"])).toBeLessThanOrEqual(60);
      holderStatuses.push(holder.status);
    }
    const [unauthenticated, limited] = [401, 429].map(
      (status) => guessStatuses.filter((one) => one === status).length,
    );
    console.info(
      `${GUESSES} guesses: ${unauthenticated} times 401, ${limited} times 429; ${holderStatuses.length} of ${GUESSES} requests of the key holder served`,
    );
    // Up to twice the limit, because a new window may start during the test.
    expect(unauthenticated).toBeGreaterThanOrEqual(LIMIT);
    expect(unauthenticated).toBeLessThanOrEqual(2 * LIMIT);
    expect(Number(unauthenticated) + Number(limited)).toBe(GUESSES);
    expect(new Set(holderStatuses)).toEqual(new Set([200]));
  });

  it("malformed keys get 401 without a query, even while the database hangs", async () => {
    proxy.freeze();
    const timesMs: number[] = [];
    for (let n = 0; n < MALFORMED; n++) {
      const { status, sentAt, receivedAt } = await sendKey(malformedKeys[n % malformedKeys.length]?.());
      expect(status).toBe(401);
      timesMs.push(receivedAt - sentAt);
    }
    // Control: a well-formed key needs a query, which fails.
    expect((await sendKey(generateKey("READ_WRITE"))).status).toBe(503);
    proxy.restore();
    console.info(
      `${MALFORMED} malformed keys rejected without the database, p99 ${quantile(timesMs, 0.99).toFixed(1)} ms`,
    );
    expect(quantile(timesMs, 0.99)).toBeLessThan(500);
  });
});
