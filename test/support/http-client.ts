import { randomUUID } from "node:crypto";
import { Agent, type IncomingHttpHeaders, request as sendHttp } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { FormV1 } from "../../server/forms/schema.js";
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
  /** A field that the OpenAPI document does not have, to be removed from the response. */
  ignoredField?: string;
}

const ORIGIN = /^https?:\/\/[^/]+/;

/**
 * Sends one request. Rejects if the connection breaks (`isBrokenConnection`), if there is no response in 20 s, or if the
 * response does not match the OpenAPI document.
 */
export function sendRequest(
  url: string,
  key: string | undefined,
  options: RequestOptions = {},
): Promise<TimedResponse> {
  const { method = "GET", body, headers = {}, agent } = options;
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const sentAt = performance.now();
    const outgoing = sendHttp(
      url,
      {
        method,
        ...(agent && { agent }),
        headers: {
          ...(key !== undefined && { Authorization: `Bearer ${key}` }),
          ...(text !== undefined && {
            "Content-Type": "application/json",
            "Content-Length": Buffer.byteLength(text),
          }),
          ...headers,
        },
      },
      (incoming) => {
        let received = "";
        incoming.setEncoding("utf8").on("data", (chunk) => {
          received += chunk;
        });
        incoming.once("error", reject);
        incoming.once("end", () => {
          const { statusCode: status = 0, headers } = incoming;
          const receivedAt = performance.now();
          try {
            const json = received ? JSON.parse(received, ignoring(options.ignoredField)) : undefined;
            if (new URL(url).pathname.startsWith("/v1")) {
              validateResponse(method, url.replace(ORIGIN, ""), status, headers, json);
            }
            resolve({ status, headers, json, sentAt, receivedAt });
          } catch (error) {
            reject(error);
          }
        });
      },
    );
    outgoing.setTimeout(20_000, () => outgoing.destroy(new Error("no response in 20 s")));
    outgoing.once("error", reject);
    outgoing.end(text);
  });
}

/** A reviver for JSON.parse that removes a field. */
const ignoring = (ignoredField?: string) =>
  ignoredField === undefined
    ? undefined
    : (name: string, value: unknown) => (name === ignoredField ? undefined : value);

const BROKEN_CONNECTION_CODES = ["ECONNREFUSED", "ECONNRESET", "EPIPE"];

/** Whether `sendRequest` rejected because the connection was refused or broke, as clients of a killed process see. */
export const isBrokenConnection = (error: unknown) =>
  BROKEN_CONNECTION_CODES.includes((error as NodeJS.ErrnoException).code ?? "");

/** For `catch`: returns undefined if the connection broke, and rejects for any other reason. */
function ignoreBrokenConnection(error: unknown): undefined {
  if (!isBrokenConnection(error)) throw error;
}

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

/** Creates a form like a robust client: retries with the same Idempotency-Key until the create is acknowledged. */
export async function createWithRetries(
  url: string,
  key: string,
  body: unknown,
  agent: Agent,
): Promise<{ form: FormV1; attempts: number }> {
  const headers = { "Idempotency-Key": randomUUID() };
  for (let attempts = 1; ; attempts++) {
    const response = await sendRequest(`${url}/v1/forms`, key, {
      method: "POST",
      body,
      headers,
      agent,
    }).catch(ignoreBrokenConnection);
    if (response?.status === 201) return { form: response.json as FormV1, attempts };
    if (attempts === 50) throw new Error(`no create in 50 attempts: ${response?.status}`);
    await sleep(100);
  }
}
