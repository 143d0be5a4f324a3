import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { Browser } from "./console-client.js";
import { startInternalGateway, TOKEN } from "./internal-gateway.js";

const { url } = await startInternalGateway({ CONSOLE_HOSTS: "Console.example.com, gateway" });
const { url: plainUrl } = await startInternalGateway();
const { port } = new URL(url);

const PATHS = [
  "GET /console",
  "HEAD /console/",
  "GET /CONSOLE",
  "GET /console/forms/1",
  "GET /console/assets/gone.js",
  "OPTIONS /console/session",
  "GET /console/session",
  "POST /console/session",
  "DELETE /console/session",
  "POST /console/trpc/users.list",
];

/** Sends a request with exactly these header lines, as a browser that another site's name has led here. */
async function send(request: string, hosts: string[], { to = url, lines = [] as string[] } = {}) {
  const socket = connect(Number(new URL(to).port), "127.0.0.1");
  const body = JSON.stringify({ token: TOKEN, name: "Ada" });
  const headers = [
    ...hosts.map((host) => `Host: ${host}`),
    `Origin: http://${hosts[0]}`,
    "Sec-Fetch-Site: same-origin",
    "Content-Type: application/json",
    `Content-Length: ${request.startsWith("POST") ? body.length : 0}`,
    "Connection: close",
    ...lines,
  ];
  const version = hosts.length > 0 ? "1.1" : "1.0";
  socket.write([`${request} HTTP/${version}`, ...headers, "", request.startsWith("POST") ? body : ""].join("\r\n"));
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk;
  });
  await once(socket, "close");
  return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1]), text };
}

describe("the console", () => {
  test.each([
    "localhost",
    "LOCALHOST:3001",
    "localhost.",
    "127.0.0.1",
    `127.0.0.1:${port}`,
    "192.0.2.7:80",
    "[::1]",
    "[::1]:3001",
    "[2001:DB8::1]:3001",
    "console.example.com",
    "CONSOLE.example.COM.:8443",
    "gateway:3001",
  ])("answers to the host %s", async (host) => {
    expect((await send("GET /console", [host])).status).toBe(200);
    expect((await send("POST /console/session", [host])).status).toBe(204);
  });

  test.each([
    [["evil.example"]],
    [[`evil.example:${port}`]],
    [["127.0.0.1.evil.example"]],
    [["localhost.evil.example"]],
    [["evil.localhost"]],
    [["sub.console.example.com"]],
    [["console.example.com.evil.example"]],
    [["my-console.example.com"]],
    [["console-example.com"]],
    [["localhost.."]],
    [["localhost:3001:80"]],
    [["localhost@evil.example"]],
    [["127.0.0.1@evil.example"]],
    [["[evil.example]"]],
    [["[127.0.0.1]"]],
    [["::1"]],
    [["127.1"]],
    [[""]],
    [[]],
    [["localhost", "evil.example"]],
    [["localhost", "localhost"]],
  ])("refuses the hosts %j on every path, in the envelope, before its handlers", async (hosts) => {
    for (const request of PATHS) {
      const { status, text } = await send(request, hosts);
      expect([request, status]).toEqual([request, 403]);
      expect(text).not.toMatch(/set-cookie|<!doctype/i);
      if (!request.startsWith("HEAD")) {
        expect(JSON.parse(text.slice(text.indexOf("{")))).toEqual({
          code: "FORBIDDEN",
          message: expect.stringMatching(/ to CONSOLE_HOSTS\.$/),
          correlationId: expect.any(String),
        });
      }
    }
  });

  test("answers to no name but localhost without CONSOLE_HOSTS", async () => {
    for (const [host = "", status] of [
      ["localhost:1", 200],
      ["console.example.com", 403],
      ["gateway", 403],
      ["undefined", 403],
    ] as const) {
      expect([host, (await send("GET /console", [host], { to: plainUrl })).status]).toEqual([host, status]);
    }
  });

  test("ignores X-Forwarded-Host and Forwarded", async () => {
    const forwarded = (host: string) => [`X-Forwarded-Host: ${host}`, `Forwarded: host=${host}`];
    expect((await send("GET /console", ["evil.example"], { lines: forwarded("localhost") })).status).toBe(403);
    expect((await send("GET /console", ["localhost"], { lines: forwarded("evil.example") })).status).toBe(200);
  });
});

test("a name that was made to resolve to the console gets no session, also with the right token, and no wrong token of it counts", async () => {
  for (let failure = 0; failure < 12; failure++) {
    expect((await send("POST /console/session", [`evil.example:${port}`])).status).toBe(403);
  }
  expect((await new Browser(url).signIn({ token: "wrong" })).status).toBe(401);
});

test("the rest of the internal port answers to every host, because browsers send no token by themselves", async () => {
  const lines = [`Authorization: Bearer ${TOKEN}`];
  for (const path of ["/metrics", "/trpc/emails.count"]) {
    expect([path, (await send(`GET ${path}`, ["gateway-1.internal"], { lines })).status]).toEqual([path, 200]);
    expect([path, (await send(`GET ${path}`, ["gateway-1.internal"])).status]).toEqual([path, 401]);
  }
});
