import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { generateKey } from "../../server/keys/authenticator.js";
import { asOperator, makeListing } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import { errorCodeOf, type HttpResponse } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";

const gateway = await startTestGateway({ RATE_LIMIT_MAX: 3, BAD_KEY_LIMIT_MAX: 3, TRUST_PROXY: 1 });
/** Another process with its own counters, and a window that is short enough to wait for. */
const shortWindowGateway = await startTestGateway({
  DATABASE_URL: String(gateway.settings.DATABASE_URL),
  RATE_LIMIT_MAX: 2,
  RATE_LIMIT_WINDOW_SECONDS: 1,
});
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

  test("every response to a key has the RateLimit headers, also for rejected requests", async () => {
    const { key } = await gateway.addKeyHolder();
    for (const sent of [
      { path: "/v1/forms" },
      { path: "/v1/nothing" },
      { path: "/v1/forms", method: "POST", body: "{" },
      { path: "/v1/forms" },
    ]) {
      const { headers } = await gateway.request({ ...sent, key });
      expect(headers.ratelimit).toMatch(/^"3-in-1min"; r=\d; t=\d+$/);
      expect(headers["ratelimit-policy"]).toMatch(/^"3-in-1min"; q=3; w=60; pk=:[\w+/=]+:$/);
    }
  });

  test("the partition key in RateLimit-Policy is derived from the key's id, not from its secret", async () => {
    const { key, keyId } = await gateway.addKeyHolder();
    const policy = (await list(key)).headers["ratelimit-policy"] ?? "";
    const shown = Buffer.from(/pk=:(.*):/.exec(policy)?.[1] ?? "", "base64").toString();
    const digest = (text: string) => createHash("sha256").update(text).digest("hex");
    expect(digest(keyId).startsWith(shown)).toBe(true);
    expect(shown).toHaveLength(12);
    for (const secret of [key, `Bearer ${key}`, key.slice(7)]) {
      expect(digest(secret)).not.toContain(shown);
      expect(policy).not.toContain(secret.slice(-8));
    }
  });

  test("exactly as many requests pass as the limit allows, even if they arrive at the same time", async () => {
    const { key } = await gateway.addKeyHolder();
    const request = `GET /v1/forms HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${key}\r\n\r\n`;
    const answers = await gateway.sendRaw(request.repeat(8), Array<string>(8).fill("GET"));
    const seen = answers.map(
      ({ status, headers }) => `${status} ${/r=\d/.exec(headers.ratelimit ?? "")?.[0]}`,
    );
    expect(seen.sort()).toEqual(["200 r=0", "200 r=1", "200 r=2", ...Array<string>(5).fill("429 r=0")]);
  });

  test("two keys of one holder do not share a limit", async () => {
    const { key, readOnlyKey } = await gateway.addKeyHolder();
    expect((await exhaust(key)).status).toBe(429);
    expect((await exhaust(readOnlyKey)).status).toBe(429);
  });

  test("both headers for the key and all operations share one limit", async () => {
    const holder = await gateway.addKeyHolder();
    const { id } = await makeListing(services, holder.userId);
    const requests = [
      () => gateway.request({ path: "/v1/listings", headers: { "X-API-Key": holder.key } }),
      () => gateway.request({ method: "POST", path: "/v1/forms", key: holder.key, body: uniqueStay(id) }),
      () => gateway.request({ method: "HEAD", path: `/v1/listings/${id}`, key: holder.key }),
    ];
    for (const one of requests) expect((await one()).status).toBeLessThan(300);
    for (const one of requests) expect((await one()).status).toBe(429);
  });

  test("the rate limit is checked before path, method, mode and body; OPTIONS and bad keys do not count", async () => {
    const { readOnlyKey: key } = await gateway.addKeyHolder();
    for (let n = 0; n < 5; n++) {
      expect((await gateway.request({ method: "OPTIONS", path: "/v1/forms", key })).status).toBe(204);
    }
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
    expect((await gateway.request({ method: "OPTIONS", path: "/v1/forms", key })).status).toBe(204);
  });

  test("a revoked key over its limit is UNAUTHENTICATED, not RATE_LIMITED", async () => {
    const holder = await gateway.addKeyHolder();
    expect((await exhaust(holder.key)).status).toBe(429);
    await asOperator(services).keys.revoke({ id: holder.keyId });
    await expect.poll(async () => (await list(holder.key)).status).toBe(401);
  });

  test("requests pass again after Retry-After", async () => {
    const { key } = await shortWindowGateway.addKeyHolder();
    const sendRequest = () => shortWindowGateway.request({ path: "/v1/forms", key });
    let refused = await sendRequest();
    // On a slow machine a window may end before it is full.
    for (let n = 0; n < 20 && refused.status !== 429; n++) refused = await sendRequest();
    expect(refused.status).toBe(429);
    expect(refused.headers["retry-after"]).toBe("1");
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect((await sendRequest()).status).toBe(200);
  });
});

describe("the limit of bad keys per client address", () => {
  let addresses = 0;
  const newAddress = () => `192.0.2.${++addresses}`;
  const sendRequest = (key: string | null, address: string, path = "/v1/forms") =>
    gateway.request({ path, key, headers: { "X-Forwarded-For": address } });

  test("unknown keys over the limit get 429, and valid keys from the same address never do", async () => {
    const address = newAddress();
    for (let n = 0; n < 3; n++)
      expect((await sendRequest(generateKey("READ_WRITE"), address)).status).toBe(401);
    const answer = await sendRequest(generateKey("READ_ONLY"), address);
    expect([answer.status, errorCodeOf(answer)]).toEqual([429, "RATE_LIMITED"]);
    expect(Number(answer.headers["retry-after"])).toBeLessThanOrEqual(60);
    expect(answer.headers.ratelimit).toBeUndefined();
    expect((await sendRequest(generateKey("READ_WRITE"), address, "/v1/nothing")).status).toBe(429);
    const { key, readOnlyKey } = await gateway.addKeyHolder();
    for (const valid of [key, readOnlyKey]) expect((await sendRequest(valid, address)).status).toBe(200);
    expect((await sendRequest(generateKey("READ_WRITE"), newAddress())).status).toBe(401);
  });

  test("revoked and expired keys count toward the limit", async () => {
    const { userId } = await gateway.addKeyHolder();
    const revoked = await gateway.issueKey(userId);
    const expired = await gateway.issueKey(userId);
    await asOperator(services).keys.revoke({ id: revoked.id });
    const past = { expiresAt: new Date(0) };
    await services.db.prisma.apiKey.update({ where: { id: expired.id }, data: past });
    const address = newAddress();
    for (const { key } of [revoked, expired, revoked])
      expect((await sendRequest(key, address)).status).toBe(401);
    for (const { key } of [revoked, expired]) expect((await sendRequest(key, address)).status).toBe(429);
  });

  test("missing, malformed and mistyped keys neither count toward the limit nor get 429", async () => {
    const address = newAddress();
    const mistyped = generateKey("READ_WRITE").slice(0, -6).concat("000000");
    for (const key of [null, "x", mistyped, null, "x", mistyped]) {
      expect((await sendRequest(key, address)).status).toBe(401);
    }
    for (let n = 0; n < 3; n++)
      expect((await sendRequest(generateKey("READ_WRITE"), address)).status).toBe(401);
    expect((await sendRequest(generateKey("READ_WRITE"), address)).status).toBe(429);
    for (const key of [null, "x", mistyped]) expect((await sendRequest(key, address)).status).toBe(401);
  });

  test("X-Forwarded-For and Forwarded are ignored unless a proxy is trusted", async () => {
    const direct = await startTestGateway({
      DATABASE_URL: String(gateway.settings.DATABASE_URL),
      BAD_KEY_LIMIT_MAX: 3,
    });
    const statuses: number[] = [];
    for (let n = 0; n < 4; n++) {
      const headers = { "X-Forwarded-For": newAddress(), Forwarded: `for=${newAddress()}` };
      statuses.push(
        (await direct.request({ path: "/v1/forms", key: generateKey("READ_WRITE"), headers })).status,
      );
    }
    expect(statuses).toEqual([401, 401, 401, 429]);
  });
});

test("BODY_MAX_BYTES, BODY_MAX_FIELDS and BODY_MAX_DEPTH set the limits of a body", async () => {
  const small = await startTestGateway({
    DATABASE_URL: String(gateway.settings.DATABASE_URL),
    BODY_MAX_BYTES: 300,
    BODY_MAX_FIELDS: 5,
    BODY_MAX_DEPTH: 2,
  });
  const { key, userId } = await small.addKeyHolder();
  const { id } = await makeListing(services, userId);
  const create = (body: unknown) => small.request({ method: "POST", path: "/v1/forms", key, body });
  expect((await create(uniqueStay(id))).status).toBe(201);
  expect((await create(JSON.stringify(uniqueStay(id)).padEnd(300))).status).toBe(201);
  expect((await create(JSON.stringify(uniqueStay(id)).padEnd(301))).status).toBe(413);
  expect((await create({ a: 1, b: 1, c: 1, d: 1, e: 1, f: 1 })).status).toBe(413);
  expect((await create({ a: [] })).status).toBe(400);
  expect((await create({ a: [[]] })).status).toBe(413);
});
