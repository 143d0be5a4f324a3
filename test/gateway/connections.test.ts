import { spawnSync } from "node:child_process";
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { startTestGateway } from "../support/gateway.js";
import { errorCodeOf, errorFieldsOf } from "../support/response.js";
import { startHolderGateway } from "./holder-gateway.js";

const { gateway, holder, send, create, headOfCreate, rawCreate } = await startHolderGateway();

const auth = `Host: x\r\nAuthorization: Bearer ${holder.key}\r\n`;

describe.concurrent("slow clients", () => {
  test.each([
    ["a request with incomplete headers gets 408 after 8 s", `GET /v1/forms HTTP/1.1\r\n${auth}X-Slow: `, "a", 8],
    ["a request with an incomplete body gets 408 after 12 s", headOfCreate("Content-Length: 100"), " ", 12],
    ["a connection that sends nothing gets 408 after 8 s", "", "", 8],
  ])("%s", async (_, start, drop, limitSeconds) => {
    const wire = await gateway.openConnection();
    const began = performance.now();
    wire.write(start);
    const drip = setInterval(() => drop && wire.write(drop), 500);
    const answer = await wire.readResponse("GET", "/v1", 18_000);
    const seconds = ((await wire.closed) - began) / 1000;
    clearInterval(drip);
    expect([answer.status, errorCodeOf(answer)]).toEqual([408, "VALIDATION_ERROR"]);
    expect(errorFieldsOf(answer)).toEqual(["request"]);
    expect(seconds).toBeGreaterThan(limitSeconds - 0.1);
    // Generous, because the machine may be loaded.
    expect(seconds).toBeLessThan(limitSeconds + 4);
  });

  test.each([
    ["CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"],
    ["incomplete headers", "GET /v1/forms HTTP/1.1\r\n"],
  ])("the connection is closed after %s even if the client keeps its side open", async (_, request) => {
    const socket = connect({ port: gateway.port, host: "127.0.0.1", allowHalfOpen: true });
    const closed = new Promise((resolve) => socket.on("error", () => {}).once("close", resolve));
    socket.write(request);
    await new Promise((resolve) => socket.resume().once("end", resolve));
    // Fails only when the other side is closed, too.
    const writing = setInterval(() => socket.write("x"), 50);
    await closed;
    clearInterval(writing);
  });

  test("100 slow clients do not delay other requests", async () => {
    const slow = await Promise.all(Array.from({ length: 100 }, () => gateway.openConnection()));
    for (const wire of slow) wire.write("GET /v1/forms HTTP/1.1\r\n");
    const began = performance.now();
    for (let n = 0; n < 20; n++) expect((await send()).status).toBe(200);
    expect(performance.now() - began).toBeLessThan(5_000);
    for (const wire of slow) wire.close();
  });
});

// The limit of other systems is lower.
test.runIf(process.platform === "linux")("1,000 connections opened at once wait to be accepted, on Linux", () => {
  const open = `const { connect } = require("node:net");
    let opened = 0;
    for (let n = 0; n < 1000; n++) connect(${gateway.port}, "127.0.0.1", () => ++opened === 1000 && process.exit());`;
  // Meanwhile this process, with the gateway in it, accepts none.
  expect(spawnSync(process.execPath, ["-e", open], { timeout: 10_000 })).toMatchObject({ status: 0 });
});

test("a connection stays open after rejected requests, and responses have Keep-Alive: timeout=65", async () => {
  const wire = await gateway.openConnection();
  for (const status of [401, 401]) {
    wire.write("GET /v1/forms HTTP/1.1\r\nHost: x\r\n\r\n");
    const answer = await wire.readResponse();
    const { connection, "keep-alive": keepAlive } = answer.headers;
    expect([answer.status, connection, keepAlive]).toEqual([status, "keep-alive", "timeout=65"]);
  }
  wire.close();
});

test.each([
  ["HTTP/1.0", `GET /v1/forms HTTP/1.0\r\n${auth}\r\n`, 200],
  ["Connection: close", `GET /v1/forms HTTP/1.1\r\n${auth}Connection: close\r\n\r\n`, 200],
  ["no Host", "GET /v1/forms HTTP/1.1\r\n\r\n", 400],
  ["bytes that are not HTTP", "hello\r\n\r\n", 400],
  ["a broken body", `${headOfCreate("Transfer-Encoding: chunked")}zz\r\n`, 400],
  ["an unknown Expect", `GET /v1/forms HTTP/1.1\r\n${auth}Expect: x\r\n\r\n`, 417],
  ["headers too large", `GET /v1/forms HTTP/1.1\r\nX: ${"a".repeat(20_000)}\r\n\r\n`, 431],
  ["CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 400],
])("the connection is closed after %s", async (_what, request, status) => {
  const wire = await gateway.openConnection();
  wire.write(request);
  const answer = await wire.readResponse();
  expect([answer.status, answer.headers.connection]).toEqual([status, "close"]);
  await wire.closed;
});

test("a request whose connection ends in the middle of the body writes nothing", async () => {
  const before = await gateway.snapshotTables();
  const wire = await gateway.openConnection();
  const { head, body } = rawCreate();
  wire.write(head + body.slice(0, -1));
  wire.end();
  const answer = await wire.readResponse("POST");
  expect([answer.status, errorCodeOf(answer)]).toEqual([400, "VALIDATION_ERROR"]);
  await wire.closed;
  expect(await gateway.snapshotTables()).toEqual(before);
});

test("a create is committed even if its connection ends before the response, and a retry replays it", async () => {
  const { head, body } = rawCreate();
  const before = await gateway.countRows("forms");
  const wire = await gateway.openConnection();
  wire.write(head + body);
  wire.end();
  await expect.poll(() => gateway.countRows("forms")).toBe(before + 1);
  wire.close();
  const retry = await create(body);
  expect([retry.status, retry.headers["idempotent-replayed"]]).toEqual([201, "true"]);
});

test("every response has nosniff, a CSP and HSTS, and no CORS header", async () => {
  for (const sent of [{}, { key: null }, { path: "/nothing", key: null }]) {
    const { headers } = await send(sent);
    expect(headers["x-content-type-options"]).toBe("nosniff");
    expect(headers["content-security-policy"]).toContain("default-src 'none'");
    expect(headers["strict-transport-security"]).toMatch(/max-age=\d+/);
    expect(headers["access-control-allow-origin"]).toBeUndefined();
  }
});

describe("CORS", () => {
  const Origin = "https://app.example.com";
  const preflight = {
    method: "OPTIONS",
    path: "/v1/forms",
    headers: { Origin, "Access-Control-Request-Method": "POST" },
  };

  test("without CORS_ORIGINS no response has a CORS header", async () => {
    const answer = await gateway.request(preflight);
    expect(answer.status).toBe(204);
    expect(Object.keys(answer.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  test("an origin in CORS_ORIGINS may call the API, its preflight needs no key, and other origins may not", async () => {
    const DATABASE_URL = String(gateway.settings.DATABASE_URL);
    const open = await startTestGateway({ DATABASE_URL, CORS_ORIGINS: Origin });
    const { status, headers } = await open.request(preflight);
    expect([status, headers.allow]).toEqual([204, "POST, GET, HEAD, OPTIONS"]);
    expect(headers["access-control-allow-origin"]).toBe(Origin);
    expect(headers["access-control-allow-methods"]).toContain("POST");
    expect(headers["access-control-allow-headers"]).toMatch(/Authorization.*Idempotency-Key/);
    const called = await open.request({ path: "/v1/forms", headers: { Origin } });
    expect([called.status, called.headers["access-control-allow-origin"]]).toEqual([401, Origin]);
    expect(called.headers["access-control-expose-headers"]).toMatch(/X-Correlation-Id/);
    const evil = { Origin: "https://evil.example.com" };
    const other = await open.request({ path: "/v1/forms", headers: evil });
    expect(other.headers["access-control-allow-origin"]).not.toBe(evil.Origin);
  });
});
