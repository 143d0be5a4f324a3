import { createServer } from "node:http";
import { connect, type Socket } from "node:net";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { isAdmitted } from "../../gateway/http/connections.js";
import { startInternalGateway, TOKEN } from "../internal/internal-gateway.js";
import { listenLocally } from "../support/network.js";
import { RawConnection } from "../support/raw-connection.js";

const MAX_UNFINISHED = 32;

describe("pipelined requests", async () => {
  const { url, gateway } = await startInternalGateway({ RATE_LIMIT_MAX: 100 });
  const { key } = await gateway.addKeyHolder();
  const ports = { public: gateway.port, internal: Number(new URL(url).port) };

  test.each([
    ["public", "with a key", `GET /v1/forms HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`],
    ["public", "without a key", "GET /v1/forms HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["public", "for a page of the documentation", "HEAD /docs HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["internal", "with the token", `GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`],
    ["internal", "without the token", "GET /trpc/forms.list HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["internal", "for a page of the console", "HEAD /console HTTP/1.1\r\nHost: x\r\n\r\n"],
  ] as const)(
    "close the connection to the %s port if more than 32 responses are unfinished: %s",
    async (port, _, request) => {
      const wire = await RawConnection.open(ports[port], () => {});
      wire.write(request.repeat(MAX_UNFINISHED + 1));
      await wire.closed;
    },
  );

  test("close the connection also if further ones have an unsupported Expect", async () => {
    const wire = await gateway.openConnection();
    const further = "GET /v1/forms HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n".repeat(MAX_UNFINISHED);
    wire.write(`GET /v1/forms HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n${further}`);
    await wire.closed;
    // Otherwise the first is answered, and the second, which closes the connection.
    await expect(wire.readResponse()).rejects.toThrow("closed before a complete response");
  });

  test("up to 32 are answered, again and again", async () => {
    const wire = await gateway.openConnection();
    for (let round = 0; round < 3; round++) {
      wire.write("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".repeat(MAX_UNFINISHED));
      for (let n = 0; n < MAX_UNFINISHED; n++) expect((await wire.readResponse("GET", "/livez")).status).toBe(200);
    }
    wire.close();
  });

  test("that wait for their turn when their connection is closed are not begun", async () => {
    const { key } = await gateway.addKeyHolder();
    const wire = await gateway.openConnection();
    wire.write(`GET /v1/forms HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`.repeat(MAX_UNFINISHED + 1));
    await wire.closed;
    const { headers } = await gateway.request({ path: "/v1/forms", key });
    // The first began when it arrived.
    expect(headers.ratelimit).toMatch(/; r=9[89];/);
  });
});

test("a connection whose client does not read a response for 30 s is closed", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const sockets: Socket[] = [];
  // More than the buffers of a connection.
  const large = Buffer.alloc(50_000_000);
  const server = createServer((req, res) => {
    if (isAdmitted(req, res)) res.end(req.url === "/large" ? large : "small");
  }).on("connection", (socket) => sockets.push(socket));
  const port = await listenLocally(server);
  const open = async (path: string) => {
    const client = connect(port, "127.0.0.1");
    onTestFinished(() => void client.destroy());
    client.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    await new Promise((resolve) => client.once("readable", resolve));
    return client;
  };
  onTestFinished(() => void server.close());
  await open("/large");
  await open("/small");
  await vi.advanceTimersByTimeAsync(29_999);
  expect(sockets.map(({ destroyed }) => destroyed)).toEqual([false, false]);
  await vi.advanceTimersByTimeAsync(1);
  expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true, false]);
});
