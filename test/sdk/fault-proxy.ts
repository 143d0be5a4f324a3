// An HTTP proxy that injects faults in front of the gateway.
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { text as readBody } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { TestGateway } from "../support/gateway.js";
import { listenLocally } from "../support/network.js";

export type Fault = (exchange: {
  request: IncomingMessage;
  response: ServerResponse;
  /** Sends the request to the gateway. */
  forward(): Promise<{ status: number; headers: Record<string, string>; body: string }>;
}) => Promise<void> | void;

export const passThrough: Fault = async ({ response, forward }) => {
  const upstream = await forward();
  response.writeHead(upstream.status, upstream.headers);
  response.end(upstream.body);
};

/** Resets the connection before the upstream gets the request. */
export const resetBeforeProcessing: Fault = ({ request }) => void request.socket.resetAndDestroy();

/** Resets the connection after the upstream processed the request: the write took effect, the response is lost. */
export const resetAfterProcessing: Fault = async ({ request, forward }) => {
  await forward();
  request.socket.resetAndDestroy();
};

/** Processed, but the body is half as long as its Content-Length. */
export const truncatedBody: Fault = async ({ request, response, forward }) => {
  const upstream = await forward();
  const body = Buffer.from(upstream.body);
  response.writeHead(upstream.status, { ...upstream.headers, "content-length": String(body.length) });
  response.write(body.subarray(0, body.length / 2), () => setTimeout(() => request.socket.destroy(), 10));
};

/** Processed, but the body ends halfway, with no Content-Length and an orderly close. */
const truncatedBodyWithoutLength: Fault = async ({ request, forward }) => {
  const upstream = await forward();
  const head = `HTTP/1.1 ${upstream.status} X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n`;
  request.socket.end(head + upstream.body.slice(0, upstream.body.length / 2));
};

/** A response that is not HTTP. */
export const notHttp: Fault = ({ request }) => void request.socket.end("SSH-2.0-OpenSSH_9.2\r\n");

/** Responds itself, without the upstream. */
export const respondWith =
  (status: number, body: unknown, headers: Record<string, string> = {}): Fault =>
  ({ response }) => {
    const text = typeof body === "string";
    response.writeHead(status, { "content-type": text ? "text/html" : "application/json", ...headers });
    response.end(text ? body : JSON.stringify(body));
  };

/** An error response with the service's envelope. */
export const errorEnvelope = (
  status: number,
  code: string,
  headers: Record<string, string> = {},
  more: object = {},
): Fault => respondWith(status, { code, message: `It was ${code}`, correlationId: CORRELATION_ID, ...more }, headers);

export const CORRELATION_ID = "5f0e4a3e-6c1c-4f0b-9a52-000000000001";

/** Delays the whole request. */
export const slowHeaders =
  (ms: number): Fault =>
  async (exchange) => {
    await sleep(ms);
    await passThrough(exchange);
  };

/** Sends the headers immediately and delays the rest of the body. */
export const slowBody =
  (ms: number): Fault =>
  async ({ response, forward }) => {
    const { status, headers, body } = await forward();
    response.writeHead(status, headers);
    response.write(body.slice(0, 5));
    await sleep(ms);
    response.end(body.slice(5));
  };

/** Faults from which a call must recover. */
export const RETRIED_FAULTS: [string, Fault][] = [
  ["a reset before the request is processed", resetBeforeProcessing],
  ["a reset after the request is processed", resetAfterProcessing],
  ["a truncated body", truncatedBody],
  ["a truncated body without Content-Length", truncatedBodyWithoutLength],
  ["a response that is not HTTP", notHttp],
  ["a 429", errorEnvelope(429, "RATE_LIMITED", { "retry-after": "1" })],
  ["a 500", errorEnvelope(500, "INTERNAL_ERROR")],
  ["a 503 with Retry-After", errorEnvelope(503, "INTERNAL_ERROR", { "retry-after": "1" })],
  ["a 503 without Retry-After", errorEnvelope(503, "INTERNAL_ERROR")],
  ["a proxy's HTML 502", respondWith(502, "<h1>Bad gateway</h1>")],
  ["slow headers", slowHeaders(300)],
  ["a slow body", slowBody(300)],
];

/** Starts a proxy of the gateway, which checks every response before a fault changes it. */
export async function startFaultProxy(gateway: TestGateway) {
  const requests: { method: string; path: string; headers: IncomingHttpHeaders; body: string; at: number }[] = [];
  let nextFaults: Fault[] = [];
  let defaultFault: Fault = passThrough;

  const server = createServer(async (request, response) => {
    const body = await readBody(request).catch(() => undefined);
    if (body === undefined) return; // the client was killed while it sent
    const { url: path = "/", method = "GET", headers } = request;
    requests.push({ method, path, headers, body, at: Date.now() });
    const forward = async () => {
      const sent = { method, path, headers: without(headers, "host"), ...(body && { body }) };
      const { status, headers: received, text } = await gateway.request(sent);
      return { status, headers: without(received, "keep-alive"), body: text };
    };
    try {
      await (nextFaults.shift() ?? defaultFault)({ request, response, forward });
    } catch (error) {
      // The test has ended and closed the gateway.
      if (server.listening) throw error;
      request.socket.destroy();
    }
  });
  const port = await listenLocally(server);

  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    /** Sets the faults of the next requests, in order. */
    injectNext(...faults: Fault[]) {
      nextFaults = faults;
    },
    /** Sets the fault of all requests without one from `injectNext`. */
    injectAlways(fault: Fault) {
      defaultFault = fault;
    },
    async close() {
      const closed = promisify(server.close.bind(server))();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** The headers without this one, and without those of one connection. */
const without = (headers: IncomingHttpHeaders, excluded: string) =>
  Object.fromEntries(
    Object.entries(headers).filter(([name]) => ![excluded, ...OF_THE_CONNECTION].includes(name)),
  ) as Record<string, string>;
const OF_THE_CONNECTION = ["connection", "content-length", "transfer-encoding"];
