import { createServer, type RequestListener, type Server } from "node:http";
import { connect, type Socket } from "node:net";
import type { Request, Response } from "express";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Admission, admit } from "../../gateway/http/admission.js";
import { isAdmitted } from "../../gateway/http/connections.js";
import { handleProtocolErrors } from "../../gateway/http/protocol-errors.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { startInternalGateway, TOKEN } from "../internal/internal-gateway.js";
import { listenLocally } from "../support/network.js";
import { RawConnection } from "../support/raw-connection.js";

const MAX_UNFINISHED = 32;

const { url, gateway } = await startInternalGateway();
const { key } = await gateway.addKeyHolder();
const ports = { public: gateway.port, internal: Number(new URL(url).port) };

describe.concurrent("a connection with more than 32 unfinished responses is closed", () => {
  test.each([
    ["public", "with a key", `GET /v1/forms HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`],
    ["public", "without a key", "GET /v1/forms HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["public", "for a page of the documentation", "HEAD /docs HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["internal", "with the token", `GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`],
    ["internal", "without the token", "GET /trpc/forms.list HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["internal", "for a page of the console", "HEAD /console HTTP/1.1\r\nHost: x\r\n\r\n"],
  ] as const)("on the %s port, if requests are pipelined %s", async (port, _, request) => {
    const wire = await RawConnection.open(ports[port], () => {});
    wire.write(request.repeat(MAX_UNFINISHED + 1));
    await wire.closed;
  });
});

test("32 pipelined requests are answered, again and again", async () => {
  const wire = await gateway.openConnection();
  for (let round = 0; round < 3; round++) {
    wire.write("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".repeat(MAX_UNFINISHED));
    for (let n = 0; n < MAX_UNFINISHED; n++) expect((await wire.readResponse("GET", "/livez")).status).toBe(200);
  }
  wire.close();
});

/** Starts a server. `open` opens a connection to it, sends these bytes, and returns both of its ends. */
async function startServer(listener: RequestListener, prepare: (server: Server) => void = () => {}) {
  let accept: (socket: Socket) => void;
  const server = createServer({ requireHostHeader: false }, listener).on("connection", (socket) => accept(socket));
  prepare(server);
  const port = await listenLocally(server);
  onTestFinished(() => void server.close());
  return async function open(bytes: string) {
    const accepted = new Promise<Socket>((resolve) => {
      accept = resolve;
    });
    const client = connect(port, "127.0.0.1").on("error", () => {});
    onTestFinished(() => void client.destroy());
    const received = new Promise((resolve) => client.once("readable", resolve));
    client.write(bytes);
    return { client, server: await accepted, received };
  };
}

function stopTimers() {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
}

/** `expect.poll` would advance the stopped timers. */
async function until(isReached: () => boolean) {
  for (const began = performance.now(); !isReached(); await new Promise(setImmediate))
    if (performance.now() - began > 20_000) throw new Error("not reached in 20 s");
}

const SHORT = "GET / HTTP/1.1\r\n\r\n";

test("such a connection is no longer read, also when responses finish, and closed after a second", async () => {
  stopTimers();
  let requests = 0;
  const open = await startServer((req, res) => {
    requests++;
    if (isAdmitted(req, res)) res.end();
  });
  const { client, server } = await open(SHORT.repeat(100_000));
  let responses = 0;
  client.setEncoding("latin1").on("data", (text: string) => {
    responses += text.split("HTTP/1.1 200").length - 1;
  });
  await until(() => responses === MAX_UNFINISHED);
  // Another connection is read meanwhile.
  await (await open(SHORT)).received;
  expect(server.bytesRead).toBeLessThanOrEqual(65_536);
  expect(requests).toBeLessThanOrEqual(65_536 / SHORT.length + 1);
  await vi.advanceTimersByTimeAsync(999);
  expect(server.destroyed).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(server.destroyed).toBe(true);
});

test("such a connection is closed at once while 20,000 refused requests wait for that", async () => {
  stopTimers();
  const open = await startServer((req, res) => void isAdmitted(req, res));
  const many = SHORT.repeat(10_000);
  const servers: Socket[] = [];
  for (let n = 0; n < 7; n++) {
    const { server } = await open(many);
    await until(() => server.isPaused() || server.destroyed);
    servers.push(server);
  }
  expect(servers.map(({ destroyed }) => destroyed)).toEqual([false, false, false, false, false, true, true]);
  await vi.advanceTimersByTimeAsync(1_000);
  await until(() => servers.every(({ closed }) => closed));
  // Their requests no longer count.
  const { server } = await open(many);
  await until(() => server.isPaused());
  expect(server.destroyed).toBe(false);
  await vi.advanceTimersByTimeAsync(1_000);
});

test("requests with an unsupported Expect count, too", async () => {
  stopTimers();
  const open = await startServer((req, res) => void isAdmitted(req, res), handleProtocolErrors);
  const further = "GET / HTTP/1.1\r\nExpect: x\r\n\r\n".repeat(MAX_UNFINISHED);
  const { server } = await open(SHORT + further);
  await until(() => server.isPaused());
  await vi.advanceTimersByTimeAsync(1_000);
  expect(server.destroyed).toBe(true);
});

test("requests that wait to begin when their connection is closed are not begun", async () => {
  const admission = new Admission({ DATABASE_CONNECT_TIMEOUT_MS: 60_000 });
  let begun = 0;
  const open = await startServer((req, res) => {
    const next = () => {
      begun++;
      req.socket.destroy();
    };
    void admit(admission)(req as Request, Object.assign(res, { locals: {} }) as unknown as Response, next);
  });
  const { server } = await open(`GET / HTTP/1.1\r\nX-API-Key: ${generateKey("READ_ONLY")}\r\n\r\n`.repeat(20));
  await until(() => server.closed && admission.waiting === 0);
  expect(begun).toBe(1);
});

test("a connection whose client does not read a response for 30 s is closed", async () => {
  stopTimers();
  // More than the buffers of a connection.
  const large = Buffer.alloc(50_000_000);
  const open = await startServer((req, res) => {
    if (isAdmitted(req, res)) res.end(req.url === "/large" ? large : "small");
  });
  const connections = [await open("GET /large HTTP/1.1\r\n\r\n"), await open(SHORT)];
  for (const { received } of connections) await received;
  const areDestroyed = () => connections.map(({ server }) => server.destroyed);
  await vi.advanceTimersByTimeAsync(29_999);
  expect(areDestroyed()).toEqual([false, false]);
  await vi.advanceTimersByTimeAsync(1);
  expect(areDestroyed()).toEqual([true, false]);
});
