import { beforeAll, describe, expect, test } from "vitest";
import { generateKey } from "../../server/keys/authenticator.js";
import { makeListing } from "../support/factories.js";
import { type KeyHolder, type LogLine, startTestGateway } from "../support/gateway.js";
import { holdLock } from "../support/locks.js";
import { errorCodeOf } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";

// `test/support/gateway.ts` also checks in every test file that no log line has a key or a holder's email address, and that every
// request has its own line.
const gateway = await startTestGateway();
let holder: KeyHolder;
let listingId: string;

beforeAll(async () => {
  holder = await gateway.addKeyHolder();
  listingId = (await makeListing(await gateway.services(), holder.userId)).id;
});

const UNKNOWN_ID = "0d2f9c1a-4c0e-4d64-9a52-0c5b8d9a8b1f";
const EMAIL = "guest.of.the.logs@example.com";
gateway.forbidInLog(EMAIL);
gateway.forbidInLog("guest.of.the.logs");

describe("log lines of requests", () => {
  test("each request has one log line with its correlation id, key id, operation and status", async () => {
    const answer = await gateway.request({ path: "/v1/forms?limit=1", key: holder.key });
    expect(await gateway.logLinesOf(answer)).toEqual([
      expect.objectContaining({
        msg: "request",
        correlationId: answer.headers["x-correlation-id"],
        keyId: holder.keyId,
        method: "GET",
        route: "/v1/forms",
        operation: "forms.list",
        status: 200,
        ms: expect.any(Number),
      }),
    ]);
  });

  test.each([
    ["GET", `/v1/forms/${UNKNOWN_ID}`, { route: "/v1/forms/{id}", operation: "forms.get" }],
    ["HEAD", "/v1/listings?limit=1", { route: "/v1/listings", operation: "listings.list" }],
    ["PUT", `/v1/forms/${UNKNOWN_ID}`, { route: "/v1/forms/{id}", operation: "forms.update" }],
    ["PATCH", "/v1/forms", { route: "/v1/forms" }],
    ["OPTIONS", "/v1/forms", { route: "/v1/forms" }],
    ["GET", "http://user:hunter2@example.com/v1/forms", { route: "/v1/forms", operation: "forms.list" }],
    ["GET", "/openapi.json", { route: "/openapi.json" }],
    ["GET", "/docs/nothing", { route: "/docs/{page}" }],
    ["GET", "/", { route: "/" }],
    ["GET", "/v1/form", { route: "unknown", path: "/v1/form" }],
    ["POST", "/api/V1/forms/", { route: "unknown", path: "/api/V1/forms/" }],
    ["GET", "//v1/forms", { route: "unknown", path: "//v1/forms" }],
    ["GET", "/v1/forms/hunter2/guests?x=hunter2", { route: "unknown", path: "/v1/forms/*/guests" }],
    ["GET", `/v1/listings/${UNKNOWN_ID}/forms`, { route: "unknown", path: "/v1/listings/*/forms" }],
    ["GET", "/V1StGXR8_Z5jdHi6B-myT", { route: "unknown", path: "/*" }],
    ["GET", "/abcdefghijklmnopqrstu", { route: "unknown", path: "/*" }],
    ["GET", "/guest@example.com/guest%40example.com", { route: "unknown", path: "/*/*" }],
    ["GET", "/v1/forms#hunter2", { route: "unknown", path: "/v1/*" }],
    ["GET", `/${"a/".repeat(20)}`, { route: "unknown", path: "/a/a/a/a/a/a/a/a/…" }],
  ])(
    "a path is logged as its route template, or masked if it is unknown: %s %s",
    async (method, path, expected) => {
      // With a key, and without one: then only the method and path are known.
      for (const key of [holder.key, null]) {
        const answer = await gateway.request({ method, path, key });
        const [line] = (await gateway.logLinesOf(answer)).filter(({ msg }) => msg === "request");
        const { route, path: shown, operation }: Partial<LogLine> = line ?? {};
        expect({ route, path: shown, operation }).toEqual({
          operation: undefined,
          path: undefined,
          ...expected,
        });
        expect(line).toMatchObject({ level: 30, method });
        expect(JSON.stringify(line)).not.toMatch(/hunter2|example/);
      }
    },
  );

  test("health checks are logged at debug level", async () => {
    for (const path of ["/livez", "/readyz"]) {
      const [line] = await gateway.logLinesOf(await gateway.request({ path }));
      expect(line).toMatchObject({ level: 20, msg: "request", route: path, status: 200 });
    }
  });

  test("each rejected request has one log line, with or without a key", async () => {
    for (const [sent, status] of [
      [{ path: "/v1/forms", key: null }, 401],
      [{ path: "/v1/nothing", key: holder.key }, 404],
      [{ path: "/v1/forms", method: "POST", key: holder.readOnlyKey, body: "{" }, 403],
      [{ path: "/v1/forms", method: "POST", key: holder.key, body: "{" }, 400],
      [{ path: "/nothing", key: null }, 404],
      [{ path: "/livez", key: null }, 200],
    ] as const) {
      const answer = await gateway.request(sent);
      const lines = await gateway.logLinesOf(answer);
      expect(lines.map((line) => [line.msg, line.status])).toEqual([["request", status]]);
    }
  });

  test("a request whose client disconnects is logged as aborted", async () => {
    const wire = await gateway.openConnection();
    const head = ["POST /v1/forms HTTP/1.1", "Host: x", `X-API-Key: ${holder.key}`];
    wire.write([...head, "Content-Type: application/json", "Content-Length: 100", "", "{"].join("\r\n"));
    const count = () => gateway.log.filter(({ status }) => status === "aborted").length;
    const before = count();
    // A response to a later request shows that this one has begun.
    await expect.poll(() => gateway.request({ path: "/livez" })).toMatchObject({ status: 200 });
    wire.close();
    await expect.poll(count).toBe(before + 1);
  });

  test("no log line has a key or an email address, wherever the client sends it", async () => {
    const unknown = generateKey("READ_WRITE");
    gateway.forbidInLog(unknown);
    const body = uniqueStay(listingId, { guestEmail: EMAIL });
    const secrets = `${holder.key}?key=${holder.key}&email=${EMAIL}`;
    for (const sent of [
      { method: "POST", path: "/v1/forms", key: holder.key, body },
      { method: "POST", path: "/v1/forms", key: holder.key, body },
      { method: "POST", path: "/v1/forms", key: holder.key, body: { ...body, [EMAIL]: holder.key } },
      { method: "POST", path: "/v1/forms", key: holder.key, body: `{"guestEmail":"${EMAIL}",` },
      { method: "POST", path: "/v1/forms", key: holder.key, body: { ...body, guestEmail: `${EMAIL}@` } },
      { method: "POST", path: "/v1/forms", key: unknown, body },
      { method: "POST", path: "/v1/forms", headers: { Authorization: `Basic ${holder.key}` }, body },
      { method: "POST", path: "/v1/forms", key: holder.key, headers: { "Idempotency-Key": EMAIL }, body },
      { path: `/v1/forms?cursor=${holder.key}&email=${EMAIL}`, key: holder.key },
      { path: `/v1/forms/${secrets}`, key: holder.key },
      { path: `/${secrets}`, key: null },
      { path: "/v1/forms", key: null, headers: { "X-Key": holder.key, Referer: EMAIL, "User-Agent": EMAIL } },
    ]) {
      expect((await gateway.request(sent)).status).toBeLessThan(500);
    }
    await gateway.sendRaw(`GET /v1/forms HTTP/1.1\r\nX-API-Key: ${holder.key}\x01\r\n\r\n`);
    await gateway.sendRaw(`GET /v1/forms ${holder.key} HTTP/1.1\r\nX-Email: ${EMAIL}\r\n\r\n`);
  });

  test("a 503 is logged with its reason and without a stack", async () => {
    const gateway = await startTestGateway({ DATABASE_STATEMENT_TIMEOUT_MS: "60" });
    const { key, userId } = await gateway.addKeyHolder();
    const services = await gateway.services();
    await makeListing(services, userId);
    await holdLock(services, "LOCK TABLE memberships");
    const answer = await gateway.request({ path: "/v1/listings", key });
    expect([answer.status, errorCodeOf(answer)]).toEqual([503, "INTERNAL_ERROR"]);
    const lines = await gateway.logLinesOf(answer);
    expect(lines.find(({ msg }) => msg === "unavailable")).toMatchObject({
      level: 40,
      reason: "canceling statement due to statement timeout",
    });
    expect(JSON.stringify(lines)).not.toMatch(/"stack"|\bat \//);
  });

  test("a 500 is logged with its cause and correlation id, and the response has neither cause nor stack", async () => {
    const broken = await startTestGateway();
    const { key, userId } = await broken.addKeyHolder();
    const services = await broken.services();
    const { id } = await makeListing(services, userId);
    broken.forbidInLog(EMAIL);
    await services.db.pool.query("ALTER TABLE creations RENAME TO gone");
    const body = uniqueStay(id, { guestEmail: EMAIL });
    const answer = await broken.request({ method: "POST", path: "/v1/forms", key, body });
    expect([answer.status, errorCodeOf(answer)]).toEqual([500, "INTERNAL_ERROR"]);
    expect(answer.headers["retry-after"]).toBeUndefined();
    const lines = await broken.logLinesOf(answer);
    expect(lines.map(({ msg }) => msg).sort()).toEqual(["request", "request failed"]);
    expect(JSON.stringify(lines)).toMatch(/creations/);
    expect(await broken.countRows("forms")).toBe(0);
    await services.db.pool.query("ALTER TABLE gone RENAME TO creations");
    expect((await broken.request({ method: "POST", path: "/v1/forms", key, body })).status).toBe(201);
  });
});
