import { beforeAll, describe, expect, test } from "vitest";
import { makeListing } from "../support/factories.js";
import { type KeyHolder, startTestGateway } from "../support/gateway.js";
import type { RawConnection } from "../support/raw-connection.js";
import { errorCodeOf, errorFieldsOf } from "../support/response.js";
import { uniqueStay } from "../support/stays.js";

const gateway = await startTestGateway();
let holder: KeyHolder;
let listingId: string;

beforeAll(async () => {
  holder = await gateway.addKeyHolder();
  listingId = (await makeListing(await gateway.services(), holder.userId)).id;
});

const auth = () => `Host: x\r\nAuthorization: Bearer ${holder.key}\r\n`;
const JSON_TYPE = "Content-Type: application/json\r\n";

/** Returns how long the connection lived, and the status of its last response, if any. */
async function waitForEnd(wire: RawConnection): Promise<{ seconds: number; status: number | undefined }> {
  const began = performance.now();
  const answer = await wire.readResponse("GET", "/v1", 18_000).catch(() => undefined);
  if (answer) expect([errorCodeOf(answer), errorFieldsOf(answer)]).toEqual(["VALIDATION_ERROR", ["request"]]);
  return { seconds: ((await wire.closed) - began) / 1000, status: answer?.status };
}

describe.concurrent("slow clients", () => {
  // Generous, because the machine may be loaded.
  const SLACK_SECONDS = 4;

  test("a request with incomplete headers gets 408 after 8 s", async () => {
    const wire = await gateway.openConnection();
    wire.write("GET /v1/forms HTTP/1.1\r\nHost: x\r\nX-Slow: ");
    const drip = setInterval(() => wire.write("a"), 500);
    const { seconds, status } = await waitForEnd(wire);
    clearInterval(drip);
    expect(status).toBe(408);
    expect(seconds).toBeGreaterThan(7.9);
    expect(seconds).toBeLessThan(8 + SLACK_SECONDS);
  });

  test("a connection that sends nothing is closed after 8 s", async () => {
    const { seconds } = await waitForEnd(await gateway.openConnection());
    expect(seconds).toBeGreaterThan(7.9);
    expect(seconds).toBeLessThan(8 + SLACK_SECONDS);
  });

  test("a request with an incomplete body gets 408 after 12 s", async () => {
    const wire = await gateway.openConnection();
    wire.write(`POST /v1/forms HTTP/1.1\r\n${auth()}${JSON_TYPE}Content-Length: 100\r\n\r\n`);
    const drip = setInterval(() => wire.write(" "), 500);
    const { seconds, status } = await waitForEnd(wire);
    clearInterval(drip);
    expect(status).toBe(408);
    expect(seconds).toBeGreaterThan(11.9);
    expect(seconds).toBeLessThan(12 + SLACK_SECONDS);
  });

  test("100 slow clients do not delay other requests", async () => {
    const slow = await Promise.all(Array.from({ length: 100 }, () => gateway.openConnection()));
    for (const wire of slow) wire.write("GET /v1/forms HTTP/1.1\r\n");
    const began = performance.now();
    for (let n = 0; n < 20; n++) {
      expect((await gateway.request({ path: "/v1/forms", key: holder.key })).status).toBe(200);
    }
    expect(performance.now() - began).toBeLessThan(5_000);
    for (const wire of slow) wire.close();
  });
});

describe("connections", () => {
  test("a chunked body gets 413 at the first byte over the limit", async () => {
    const wire = await gateway.openConnection();
    wire.write(`POST /v1/forms HTTP/1.1\r\n${auth()}${JSON_TYPE}Transfer-Encoding: chunked\r\n\r\n`);
    wire.write(`4000\r\n${" ".repeat(0x4000)}\r\n`);
    await gateway.request({ path: "/livez" });
    const began = performance.now();
    wire.write("1\r\n \r\n");
    expect((await wire.readResponse("POST")).status).toBe(413);
    expect(performance.now() - began).toBeLessThan(2_000);
    wire.close();
  });

  test("a connection stays open after rejected requests, and responses have Keep-Alive: timeout=65", async () => {
    const wire = await gateway.openConnection();
    for (const [request, status] of [
      [`GET /v1/forms HTTP/1.1\r\n${auth()}\r\n`, 200],
      ["GET /v1/forms HTTP/1.1\r\nHost: x\r\n\r\n", 401],
      [`DELETE /v1/forms HTTP/1.1\r\n${auth()}\r\n`, 405],
      [`GET /v1/listings HTTP/1.1\r\n${auth()}\r\n`, 200],
    ] as const) {
      wire.write(request);
      const answer = await wire.readResponse();
      expect(answer.status).toBe(status);
      expect(answer.headers.connection).toBe("keep-alive");
      expect(answer.headers["keep-alive"]).toBe("timeout=65");
    }
    wire.close();
  });

  test("a request with a broken body gets 400 after the requests pipelined before it are answered", async () => {
    const wire = await gateway.openConnection();
    const broken = `POST /v1/forms HTTP/1.1\r\n${auth()}${JSON_TYPE}Transfer-Encoding: chunked\r\n\r\nzz\r\n`;
    wire.write(`GET /v1/forms HTTP/1.1\r\n${auth()}\r\n`.repeat(3) + broken);
    for (const status of [200, 200, 200, 400]) expect((await wire.readResponse()).status).toBe(status);
    await wire.closed;
  });

  test.each([
    ["HTTP/1.0", () => `GET /v1/forms HTTP/1.0\r\n${auth()}\r\n`, 200],
    ["Connection: close", () => `GET /v1/forms HTTP/1.1\r\n${auth()}Connection: close\r\n\r\n`, 200],
    ["no Host", () => "GET /v1/forms HTTP/1.1\r\n\r\n", 400],
    ["bytes that are not HTTP", () => "hello\r\n\r\n", 400],
    ["an unknown Expect", () => `GET /v1/forms HTTP/1.1\r\n${auth()}Expect: x\r\n\r\n`, 417],
    ["headers too large", () => `GET /v1/forms HTTP/1.1\r\nX: ${"a".repeat(20_000)}\r\n\r\n`, 431],
    ["CONNECT", () => "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 400],
  ])("the connection is closed after %s", async (_what, request, status) => {
    const wire = await gateway.openConnection();
    wire.write(request());
    const answer = await wire.readResponse();
    expect(answer.status).toBe(status);
    expect(answer.headers.connection).toBe("close");
    await wire.closed;
  });

  test("a request whose connection ends in the middle of the body writes nothing", async () => {
    const before = await gateway.snapshotTables();
    const body = JSON.stringify(uniqueStay(listingId));
    const wire = await gateway.openConnection();
    const head = `POST /v1/forms HTTP/1.1\r\n${auth()}${JSON_TYPE}Content-Length: ${body.length + 1}\r\n\r\n`;
    wire.write(head + body);
    wire.end();
    const answer = await wire.readResponse("POST");
    expect([answer.status, errorCodeOf(answer)]).toEqual([400, "VALIDATION_ERROR"]);
    await wire.closed;
    expect(await gateway.snapshotTables()).toEqual(before);
  });

  test("a create is committed even if its connection ends before the response, and a retry replays it", async () => {
    const body = JSON.stringify(uniqueStay(listingId));
    const before = await gateway.countRows("forms");
    const wire = await gateway.openConnection();
    const head = `POST /v1/forms HTTP/1.1\r\n${auth()}${JSON_TYPE}Content-Length: ${body.length}\r\n\r\n`;
    wire.write(head + body);
    wire.end();
    await expect.poll(() => gateway.countRows("forms")).toBe(before + 1);
    wire.close();
    const retry = await gateway.request({ method: "POST", path: "/v1/forms", key: holder.key, body });
    expect([retry.status, retry.headers["idempotent-replayed"]]).toEqual([201, "true"]);
  });
});

describe("responses", () => {
  test("every response has nosniff, a CSP and HSTS, and no CORS header", async () => {
    for (const sent of [
      { path: "/v1/forms", key: holder.key },
      { path: "/v1/forms", key: null },
      { path: "/nothing", key: null },
    ]) {
      const { headers } = await gateway.request(sent);
      expect(headers["x-content-type-options"]).toBe("nosniff");
      expect(headers["content-security-policy"]).toContain("default-src 'none'");
      expect(headers["strict-transport-security"]).toMatch(/max-age=\d+/);
      expect(headers["access-control-allow-origin"]).toBeUndefined();
    }
  });

  test("Accept, conditional and Range headers do not change a response", async () => {
    const first = await gateway.request({ path: "/v1/listings", key: holder.key });
    for (const headers of [
      { Accept: "text/html" },
      { Accept: "application/xml;q=1" },
      { "Accept-Encoding": "gzip, br" },
      { "Accept-Charset": "utf-16" },
      { "If-None-Match": "*" },
      { "If-Modified-Since": new Date().toUTCString() },
      { Range: "bytes=0-1" },
    ]) {
      const answer = await gateway.request({ path: "/v1/listings", key: holder.key, headers });
      expect([answer.status, answer.json]).toEqual([200, first.json]);
      expect(answer.headers["content-encoding"]).toBeUndefined();
    }
  });
});

describe("CORS", () => {
  const preflight = { Origin: "https://app.example.com", "Access-Control-Request-Method": "POST" };

  test("without CORS_ORIGINS no response has a CORS header", async () => {
    const answer = await gateway.request({ method: "OPTIONS", path: "/v1/forms", headers: preflight });
    expect(answer.status).toBe(204);
    expect(Object.keys(answer.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  test("an origin in CORS_ORIGINS may call the API, its preflight needs no key, and other origins may not", async () => {
    const open = await startTestGateway({
      DATABASE_URL: String(gateway.settings.DATABASE_URL),
      CORS_ORIGINS: "https://app.example.com",
    });
    const preflightAnswer = await open.request({ method: "OPTIONS", path: "/v1/forms", headers: preflight });
    expect(preflightAnswer.status).toBe(204);
    expect(preflightAnswer.headers.allow).toBe("POST, GET, HEAD, OPTIONS");
    expect(preflightAnswer.headers["access-control-allow-origin"]).toBe("https://app.example.com");
    expect(preflightAnswer.headers["access-control-allow-methods"]).toContain("POST");
    expect(preflightAnswer.headers["access-control-allow-headers"]).toMatch(/Authorization.*Idempotency-Key/);
    const called = await open.request({ path: "/v1/forms", headers: { Origin: "https://app.example.com" } });
    expect(called.status).toBe(401);
    expect(called.headers["access-control-allow-origin"]).toBe("https://app.example.com");
    expect(called.headers["access-control-expose-headers"]).toMatch(/X-Correlation-Id/);
    const other = await open.request({ path: "/v1/forms", headers: { Origin: "https://evil.example.com" } });
    expect(other.headers["access-control-allow-origin"]).not.toBe("https://evil.example.com");
  });
});
