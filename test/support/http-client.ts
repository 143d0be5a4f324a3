import { Agent, type RequestOptions as HttpOptions, type IncomingHttpHeaders, request as sendHttp } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { countValues } from "./statistics.js";
import { validateResponse } from "./validate-response.js";

export interface TimedResponse {
  status: number;
  headers: IncomingHttpHeaders;
  json: unknown;
  /** `performance.now()` when the request was sent and when the response was complete. */
  sentAt: number;
  receivedAt: number;
}

export interface RequestOptions {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  agent?: Agent;
  /** Fields to be removed from the response, such as those that the OpenAPI document does not have. */
  ignoredFields?: readonly string[] | undefined;
}

/**
 * Sends a request with the parts of its body, and reads the whole response. Rejects if the connection breaks, or if there
 * is no response in time.
 */
export function exchange(options: HttpOptions, parts: readonly (string | Buffer)[], timeoutMs: number) {
  return new Promise<{ status: number; headers: IncomingHttpHeaders; text: string }>((resolve, reject) => {
    const outgoing = sendHttp(options, (incoming) => {
      const { statusCode: status = 0, headers } = incoming;
      let text = "";
      incoming.setEncoding("utf8").on("data", (chunk) => {
        text += chunk;
      });
      incoming.once("error", reject);
      incoming.once("end", () => resolve({ status, headers, text }));
    });
    const fail = () =>
      outgoing.destroy(new Error(`no response to ${options.method} ${options.path} in ${timeoutMs} ms`));
    outgoing.setTimeout(timeoutMs, fail);
    outgoing.once("error", reject);
    for (const part of parts) outgoing.write(part);
    outgoing.end();
  });
}

/**
 * Sends one request. Rejects if the connection breaks (`isBrokenConnection`), if there is no response in 20 s, or if the
 * response does not match the OpenAPI document.
 */
export async function sendRequest(
  url: string,
  key: string | undefined,
  { method = "GET", body, headers, agent, ignoredFields }: RequestOptions = {},
): Promise<TimedResponse> {
  const { hostname, port, pathname, search } = new URL(url);
  const text = body === undefined ? undefined : JSON.stringify(body);
  const sent = {
    ...(key !== undefined && { Authorization: `Bearer ${key}` }),
    ...(text !== undefined && { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) }),
    ...headers,
  };
  const path = pathname + search;
  const options = { hostname, port, path, method, headers: sent, ...(agent && { agent }) };
  const sentAt = performance.now();
  const response = await exchange(options, text === undefined ? [] : [text], 20_000);
  const receivedAt = performance.now();
  const json = response.text ? JSON.parse(response.text, withoutFields(ignoredFields)) : undefined;
  if (pathname.startsWith("/v1"))
    validateResponse(method, path, response.status, response.headers, json, ignoredFields);
  return { status: response.status, headers: response.headers, json, sentAt, receivedAt };
}

/** Reads all pages of the list of forms, or those after a cursor. Stops at a page that is not a success. */
export async function readFormPages(url: string, key: string, limit: number, after = ""): Promise<TimedResponse[]> {
  const pages: TimedResponse[] = [];
  for (let cursor: string | null = after; cursor !== null; ) {
    const page: TimedResponse = await sendRequest(
      `${url}/v1/forms?limit=${limit}${cursor && `&cursor=${cursor}`}`,
      key,
    );
    pages.push(page);
    cursor = (page.json as { nextCursor?: string | null }).nextCursor ?? null;
  }
  return pages;
}

/** A reviver for JSON.parse that removes fields. */
const withoutFields = (names?: readonly string[]) =>
  names && ((name: string, value: unknown) => (names.includes(name) ? undefined : value));

const BROKEN_CONNECTION_CODES = ["ECONNREFUSED", "ECONNRESET", "EPIPE"];

/** Whether `sendRequest` rejected because the connection was refused or broke, as clients of a killed process see. */
export const isBrokenConnection = (error: unknown) =>
  BROKEN_CONNECTION_CODES.includes((error as NodeJS.ErrnoException).code ?? "");

/** Concurrent clients and the outcomes of their requests so far. */
export interface Load {
  responses: TimedResponse[];
  /** Rejected requests: connections that were refused or broke, and responses that violate the contract. */
  errors: Error[];
  /** Stops sending, and waits for requests in flight. */
  stop(): Promise<void>;
}

/** Starts `clients` clients, each of which sends one request after the other until stopped. */
export function startLoad(clients: number, request: (client: number) => Promise<TimedResponse>, pauseMs = 0): Load {
  const load: Load = { responses: [], errors: [], stop: async () => {} };
  let isStopped = false;
  const run = async (client: number) => {
    while (!isStopped) {
      try {
        load.responses.push(await request(client));
      } catch (error) {
        load.errors.push(error as Error);
      }
      await sleep(pauseMs);
    }
  };
  const running = Promise.all(Array.from({ length: clients }, (_, client) => run(client)));
  load.stop = async () => {
    isStopped = true;
    await running;
  };
  return load;
}

/** Counts responses by status and errors by message. */
export const countOutcomes = ({ responses, errors }: Omit<Load, "stop">): Record<string, number> =>
  countValues([...responses.map(({ status }) => status), ...errors.map(({ message }) => message)]);

/** Milliseconds from sending the request to the complete response, of the slowest one. */
export const slowestMs = (responses: Pick<TimedResponse, "sentAt" | "receivedAt">[]) =>
  responses.reduce((slowest, { sentAt, receivedAt }) => Math.max(slowest, receivedAt - sentAt), 0);

/** An agent of a client that keeps one connection open. */
export const singleConnectionAgent = () => new Agent({ keepAlive: true, maxSockets: 1 });
