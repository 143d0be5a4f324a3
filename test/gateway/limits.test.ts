import { createHash } from "node:crypto";
import { createServer } from "node:net";
import type { Options } from "express-rate-limit";
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

test("a client's address is forgotten at most two minutes after its last bad key", async () => {
  onTestFinished(() => {
    vi.useRealTimers();
  });
  vi.useFakeTimers();
  const store = new LocalStore();
  onTestFinished(() => store.shutdown());
  store.init({ windowMs: 60_000 } as Options);
  const isStored = () => store.current.has("192.0.2.1") || store.previous.has("192.0.2.1");
  // The longest case: a window of the store has just begun.
  vi.advanceTimersByTime(60_000 + 1);
  await store.increment("192.0.2.1");
  vi.advanceTimersByTime(60_000);
  expect(isStored()).toBe(true);
  vi.advanceTimersByTime(60_000);
  expect(isStored()).toBe(false);
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
