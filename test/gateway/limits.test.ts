import { createHash } from "node:crypto";
import { createServer } from "node:net";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { LocalStore } from "../../gateway/http/rate-limit.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { asOperator, makeListing } from "../support/factories.js";
import { type HttpRequest, startTestGateway } from "../support/gateway.js";
import { listenLocally } from "../support/network.js";
import { errorCodeOf, type HttpResponse } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";
import { startHolderGateway } from "./holder-gateway.js";

const gateway = await startTestGateway({ RATE_LIMIT_MAX: 3, BAD_KEY_LIMIT_MAX: 3, TRUST_PROXY: 1 });
const services = await gateway.services();
const list = (key: string) => gateway.request({ path: "/v1/forms", key });

async function exhaust(key: string): Promise<HttpResponse> {
  for (const left of [2, 1, 0]) {
    const answer = await list(key);
    expect(answer.status).toBe(200);
    expect(answer.headers.ratelimit).toMatch(new RegExp(`^"3-in-1min"; r=${left}; t=([1-9]|[1-5]\\d|60)$`));
  }
  return list(key);
}

describe("the rate limit per key", () => {
  test("a request over the limit gets 429, and Retry-After is the time until the window ends", async () => {
    const { key } = await gateway.addKeyHolder();
    const answer = await exhaust(key);
    expect([answer.status, errorCodeOf(answer)]).toEqual([429, "RATE_LIMITED"]);
    const wait = Number(answer.headers["retry-after"]);
    expect(wait).toBeGreaterThanOrEqual(1);
    expect(wait).toBeLessThanOrEqual(60);
    expect(answer.headers.ratelimit).toMatch(/^"3-in-1min"; r=0; t=\d+$/);
  });

  test("every response to a key has the RateLimit headers, also for rejected requests; the partition key is derived from the key's id, not from its secret", async () => {
    const { key, keyId } = await gateway.addKeyHolder();
    for (const sent of [{ path: "/v1/nothing" }, { path: "/v1/forms", method: "POST", body: "{" }]) {
      const { headers } = await gateway.request({ ...sent, key });
      expect(headers.ratelimit).toMatch(/^"3-in-1min"; r=\d; t=\d+$/);
      const partition = Buffer.from(createHash("sha256").update(keyId).digest("hex").slice(0, 12));
      const policy = `"3-in-1min"; q=3; w=60; pk=:${partition.toString("base64")}:`;
      expect(headers["ratelimit-policy"]).toBe(policy);
    }
  });

  test("exactly as many requests pass as the limit allows, even if they arrive at the same time", async () => {
    const { key } = await gateway.addKeyHolder();
    const request = `GET /v1/forms HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${key}\r\n\r\n`;
    const answers = await gateway.sendRaw(request.repeat(8), Array<string>(8).fill("GET"));
    const seen = answers.map(({ status, headers }) => `${status} ${/r=\d/.exec(headers.ratelimit ?? "")?.[0]}`);
    expect(seen.sort()).toEqual(["200 r=0", "200 r=1", "200 r=2", ...Array<string>(5).fill("429 r=0")]);
  });

  test("both headers for the key and all operations share one limit; two keys of one holder do not share a limit", async () => {
    const holder = await gateway.addKeyHolder();
    const { id } = await makeListing(services, holder.userId);
    const requests: HttpRequest[] = [
      { path: "/v1/listings", headers: { "X-API-Key": holder.key } },
      { method: "POST", path: "/v1/forms", key: holder.key, body: uniqueStay(id) },
      { method: "HEAD", path: `/v1/listings/${id}`, key: holder.key },
    ];
    for (const sent of requests) expect((await gateway.request(sent)).status).toBeLessThan(300);
    for (const sent of requests) expect((await gateway.request(sent)).status).toBe(429);
    expect((await exhaust(holder.readOnlyKey)).status).toBe(429);
  });

  test("the rate limit is checked before path, method, mode and body; OPTIONS does not count", async () => {
    const { readOnlyKey: key } = await gateway.addKeyHolder();
    const options = { method: "OPTIONS", path: "/v1/forms", key };
    for (let n = 0; n < 5; n++) expect((await gateway.request(options)).status).toBe(204);
    expect((await exhaust(key)).status).toBe(429);
    for (const sent of [
      { path: "/v1/nothing" },
      { path: "/v1/forms/nothing" },
      { path: "/v1/forms", method: "DELETE" },
      { path: "/v1/forms", method: "POST", body: "{" },
      { path: "/v1/forms?limit=x" },
    ]) {
      expect((await gateway.request({ ...sent, key })).status).toBe(429);
    }
    expect((await gateway.request(options)).status).toBe(204);
  });

  test("a revoked key over its limit is UNAUTHENTICATED, not RATE_LIMITED", async () => {
    const { key, keyId } = await gateway.addKeyHolder();
    expect((await exhaust(key)).status).toBe(429);
    await asOperator(services).keys.revoke({ id: keyId });
    await expect.poll(async () => (await list(key)).status).toBe(401);
  });
});

describe("the limit of bad keys per client address", () => {
  let addresses = 0;
  const newAddress = () => `192.0.2.${++addresses}`;
  const unknownKey = () => generateKey("READ_WRITE");
  const sendRequest = (key: string | null, address: string, path = "/v1/forms") =>
    gateway.request({ path, key, headers: { "X-Forwarded-For": address } });
  async function expectStatus(status: number, keys: (string | null)[], address: string) {
    for (const key of keys) expect((await sendRequest(key, address)).status).toBe(status);
  }

  test("unknown keys over the limit get 429, and valid keys from the same address never do", async () => {
    const address = newAddress();
    await expectStatus(401, [unknownKey(), unknownKey(), unknownKey()], address);
    const answer = await sendRequest(generateKey("READ_ONLY"), address);
    expect([answer.status, errorCodeOf(answer)]).toEqual([429, "RATE_LIMITED"]);
    expect(Number(answer.headers["retry-after"])).toBeLessThanOrEqual(60);
    expect(answer.headers.ratelimit).toBeUndefined();
    expect((await sendRequest(unknownKey(), address, "/v1/nothing")).status).toBe(429);
    const { key, readOnlyKey } = await gateway.addKeyHolder();
    await expectStatus(200, [key, readOnlyKey], address);
    await expectStatus(401, [unknownKey()], newAddress());
  });

  test("revoked and expired keys count toward the limit", async () => {
    const { userId } = await gateway.addKeyHolder();
    const revoked = await gateway.issueKey(userId);
    const expired = await gateway.issueKey(userId);
    await asOperator(services).keys.revoke({ id: revoked.id });
    const past = { expiresAt: new Date(0) };
    await services.db.prisma.apiKey.update({ where: { id: expired.id }, data: past });
    const address = newAddress();
    await expectStatus(401, [revoked.key, expired.key, revoked.key], address);
    await expectStatus(429, [revoked.key, expired.key], address);
  });

  test.each([
    ["IPv4 with ports", (n: number) => `203.0.113.9:4000${n}`],
    ["IPv6 with ports", (n: number) => `[2001:db8::1]:4000${n}`],
    [
      "IPv6 in brackets, or with another interface of its network",
      (n: number) => ["[2001:db8:1::1]", `2001:db8:1::${n}`][n % 2],
    ],
    ["IPv4 in IPv6", (n: number) => ["::ffff:203.0.113.10", "203.0.113.10", "[::ffff:203.0.113.10]:1"][n % 3]],
    ["a link-local address with zones", (n: number) => `fe80::1%eth${n}`],
  ])("an address is the same in each form that proxies send: %s", async (_, form) => {
    for (const n of [0, 1, 2]) await expectStatus(401, [unknownKey()], String(form(n)));
    await expectStatus(429, [unknownKey()], String(form(3)));
  });

  test("what is no address counts for that of the connection", async () => {
    const address = newAddress();
    for (const sent of ["unknown", "", `${address}, `]) await expectStatus(401, [unknownKey()], sent);
    for (const sent of ["_hidden", "1.2.3.4.5", "[x]:1", "999.1.1.1:1", "1.2.3.4:", `::1${"x".repeat(5_000)}`])
      await expectStatus(429, [unknownKey()], sent);
    await expectStatus(401, [unknownKey()], address);
  });

  test("missing, malformed and mistyped keys neither count toward the limit nor get 429", async () => {
    const address = newAddress();
    const malformed = [null, "x", unknownKey().slice(0, -6).concat("000000")];
    await expectStatus(401, [...malformed, ...malformed], address);
    await expectStatus(401, [unknownKey(), unknownKey(), unknownKey()], address);
    await expectStatus(429, [unknownKey()], address);
    await expectStatus(401, malformed, address);
  });
});

test("BODY_MAX_BYTES, BODY_MAX_FIELDS and BODY_MAX_DEPTH set the limits of a body", async () => {
  const limits = { BODY_MAX_BYTES: 300, BODY_MAX_FIELDS: 5, BODY_MAX_DEPTH: 2 };
  const { listingId: id, create } = await startHolderGateway(limits);
  for (const [body, status] of [
    [uniqueStay(id), 201],
    [JSON.stringify(uniqueStay(id)).padEnd(300), 201],
    [JSON.stringify(uniqueStay(id)).padEnd(301), 413],
    [{ a: 1, b: 1, c: 1, d: 1, e: 1, f: 1 }, 413],
    [{ a: [] }, 400],
    [{ a: [[]] }, 413],
  ] as const) {
    expect((await create(body)).status).toBe(status);
  }
});

describe("if the system clock is set back by an hour", () => {
  function setClockBack() {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 3_600_000 });
    onTestFinished(() => void vi.useRealTimers());
  }

  test("a limited key waits until its window ends, and is then served", async () => {
    const limited = await startTestGateway({ RATE_LIMIT_MAX: 1, RATE_LIMIT_WINDOW_SECONDS: 3 });
    const { key } = await limited.addKeyHolder();
    const list = () => limited.request({ path: "/v1/forms", key });
    expect((await list()).status).toBe(200);
    setClockBack();
    const { status, headers } = await list();
    expect(status).toBe(429);
    expect(headers["retry-after"]).toMatch(/^[1-3]$/);
    expect(headers.ratelimit).toMatch(/; t=[0-3]$/);
    await expect.poll(async () => (await list()).status).toBe(200);
  });

  test("an address with too many bad keys waits for a minute at most", async () => {
    const headers = { "X-Forwarded-For": "198.51.100.1" };
    const send = () => gateway.request({ path: "/v1/forms", key: generateKey("READ_ONLY"), headers });
    for (let n = 0; n < 3; n++) expect((await send()).status).toBe(401);
    setClockBack();
    const limited = await send();
    expect(limited.status).toBe(429);
    expect(Number(limited.headers["retry-after"])).toBeLessThanOrEqual(60);
  });
});

describe("the counts of a process", () => {
  /** A store whose clock and timers the test advances. */
  function createStore() {
    const clock = vi.spyOn(performance, "now").mockReturnValue(1_000);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => {
      clock.mockRestore();
      vi.useRealTimers();
    });
    const wait = (ms: number) => {
      clock.mockReturnValue(performance.now() + ms);
      vi.advanceTimersByTime(ms);
    };
    const store = new LocalStore();
    store.init({ windowMs: 60_000 });
    return { store, wait };
  }

  test("are those of a window, which begins with the first hit and ends after it, whatever comes meanwhile", () => {
    const { store, wait } = createStore();
    for (const hits of [1, 2, 3]) {
      expect(store.increment("a").totalHits).toBe(hits);
      wait(20_000);
    }
    wait(1);
    expect(store.increment("a").totalHits).toBe(1);
  });

  test("forget a client's address a minute after its first bad key", () => {
    const { store, wait } = createStore();
    store.increment("192.0.2.1");
    wait(59_000);
    store.increment("192.0.2.1");
    expect(store.size).toBe(1);
    wait(1_002);
    expect(store.size).toBe(0);
  });

  test("are of at most 10,000 keys or addresses: of more, those that have sent nothing for longest are forgotten", () => {
    const { store } = createStore();
    for (let n = 0; n < 10_000; n++) store.increment(`${n}`);
    expect(store.increment("0").totalHits).toBe(2);
    store.increment("another");
    expect(store.size).toBe(10_000);
    expect(store.increment("0").totalHits).toBe(3);
    expect(store.increment("1").totalHits).toBe(1);
  });
});

test("a Redis older than 6 is reported once, and rate limits are counted in the process", async () => {
  // The response of Redis 5 to the client's first command.
  const old = createServer((socket) => {
    socket.on("data", () => socket.write("-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n"));
    socket.on("error", () => {});
  });
  const port = await listenLocally(old);
  onTestFinished(() => void old.close());
  const counting = await startTestGateway({ REDIS_URL: `redis://127.0.0.1:${port}`, RATE_LIMIT_MAX: 2 });
  const { key } = await counting.addKeyHolder();
  const list = async () => (await counting.request({ path: "/v1/listings", key })).status;
  expect([await list(), await list(), await list()]).toEqual([200, 200, 429]);
  const lost = counting.log.filter(({ msg }) => msg.startsWith("Redis is unavailable"));
  expect(lost.map(({ reason }) => reason)).toEqual(["it is older than Redis 6, the minimum version"]);
});
