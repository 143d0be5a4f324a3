// An HTTP proxy that misbehaves to order. It stands before any upstream: the fake service, or the real gateway.
import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as requestUpstream,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { readBody } from "./fake-service.js";

export interface Answer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** Lets the upstream do the work. */
  forward(): Promise<Answer>;
}

export type Fault = (exchange: Exchange) => Promise<void> | void;

export interface SeenRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  at: number;
}

export interface Mischief {
  url: string;
  requests: SeenRequest[];
  /** The faults of the next requests, in order; after them all goes well. */
  plan(...faults: Fault[]): void;
  /** The fault of every request. */
  always(fault: Fault): void;
  openSockets(): Promise<number>;
  close(): Promise<void>;
}

export const pass: Fault = async ({ response, forward }) => {
  const answer = await forward();
  response.writeHead(answer.status, answer.headers);
  response.end(answer.body);
};

/** The connection dies before the request was done. */
export const resetBefore: Fault = ({ request }) => void request.socket.resetAndDestroy();

/** The connection dies after the request was done: its effect is there, its answer is not. */
export const resetAfter: Fault = async ({ request, forward }) => {
  await forward();
  request.socket.resetAndDestroy();
};

/** Done, but the answer's body stops halfway, against its announced length. */
export const halfBody: Fault = async ({ request, response, forward }) => {
  const answer = await forward();
  const body = Buffer.from(answer.body);
  response.writeHead(answer.status, { ...answer.headers, "content-length": String(body.length) });
  response.write(body.subarray(0, body.length / 2), () => setTimeout(() => request.socket.destroy(), 10));
};

/** Done, but the answer stops halfway and nothing tells: no length, and an orderly close. */
export const halfBodyUnannounced: Fault = async ({ request, forward }) => {
  const answer = await forward();
  const head = `HTTP/1.1 ${answer.status} X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n`;
  request.socket.end(head + answer.body.slice(0, answer.body.length / 2));
};

/** Not HTTP at all. */
export const garbage: Fault = ({ request }) => void request.socket.end("SSH-2.0-OpenSSH_9.2\r\n");

/** An answer of its own making; the upstream never hears of the request. */
export const answer =
  (status: number, body: unknown, headers: Record<string, string> = {}): Fault =>
  ({ response }) => {
    const text = typeof body === "string";
    response.writeHead(status, { "content-type": text ? "text/html" : "application/json", ...headers });
    response.end(text ? body : JSON.stringify(body));
  };

/** An error in the service's envelope. */
export const envelope = (
  status: number,
  code: string,
  headers: Record<string, string> = {},
  more: object = {},
): Fault =>
  answer(status, { code, message: `It was ${code}`, correlationId: CORRELATION_ID, ...more }, headers);

export const CORRELATION_ID = "5f0e4a3e-6c1c-4f0b-9a52-000000000001";

/** Done, but its headers come late. */
export const slowHeaders =
  (ms: number): Fault =>
  async (exchange) => {
    await sleep(ms);
    await pass(exchange);
  };

/** Done; headers at once, the body late. */
export const slowBody =
  (ms: number): Fault =>
  async ({ response, forward }) => {
    const { status, headers, body } = await forward();
    response.writeHead(status, headers);
    response.write(body.slice(0, 5));
    await sleep(ms);
    response.end(body.slice(5));
  };

/** Everything after which a call is to succeed all the same. */
export const RETRIED: [string, Fault][] = [
  ["a reset before the work", resetBefore],
  ["a reset after the work", resetAfter],
  ["half an answer", halfBody],
  ["half an answer without a length", halfBodyUnannounced],
  ["something that is not HTTP", garbage],
  ["a 429", envelope(429, "RATE_LIMITED", { "retry-after": "1" })],
  ["a 500", envelope(500, "INTERNAL_ERROR")],
  ["a 503 with Retry-After", envelope(503, "INTERNAL_ERROR", { "retry-after": "1" })],
  ["a 503 without Retry-After", envelope(503, "INTERNAL_ERROR")],
  ["a proxy's HTML 502", answer(502, "<h1>Bad gateway</h1>")],
  ["slow headers", slowHeaders(300)],
  ["a slow body", slowBody(300)],
];

/** `watch` is told of every answer of the upstream, before any fault. */
export async function startMischief(
  upstream: string,
  watch: (method: string, path: string, answer: Answer) => void = () => {},
): Promise<Mischief> {
  const requests: SeenRequest[] = [];
  let planned: Fault[] = [];
  let otherwise: Fault = pass;

  const server = createServer(async (request, response) => {
    const body = await readBody(request);
    const path = request.url ?? "/";
    const method = request.method ?? "GET";
    requests.push({ method, path, headers: request.headers, body, at: Date.now() });
    // Each on a connection of its own: one that is kept may end just as it is used again.
    const forward = async (): Promise<Answer> => {
      const headers = without(request.headers, ["host", "connection", "content-length", "transfer-encoding"]);
      const sent = requestUpstream(upstream + path, { method, headers, agent: false });
      sent.end(body);
      const [answered] = (await once(sent, "response")) as [IncomingMessage];
      const answer = {
        status: Number(answered.statusCode),
        headers: without(answered.headers, [
          "connection",
          "keep-alive",
          "transfer-encoding",
          "content-length",
        ]),
        body: await readBody(answered),
      };
      watch(method, path, answer);
      return answer;
    };
    try {
      await (planned.shift() ?? otherwise)({ request, response, forward });
    } catch (error) {
      // The upstream has been closed under it, as a test's end does.
      if (server.listening) throw error;
      request.socket.destroy();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    plan(...faults) {
      planned = faults;
    },
    always(fault) {
      otherwise = fault;
    },
    openSockets: () =>
      new Promise((resolve, reject) => {
        server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const without = (headers: IncomingHttpHeaders, names: string[]) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name))) as Record<
    string,
    string
  >;
