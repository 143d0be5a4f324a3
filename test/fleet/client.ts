import { randomUUID } from "node:crypto";
import { Agent, type IncomingHttpHeaders, request as send } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { FormV1 } from "../../server/forms/schema.js";
import { validateResponse } from "../contract/responses.js";

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  json: unknown;
  /** When it was sent and when the answer was there, as of `performance.now`. */
  sentAt: number;
  cameAt: number;
}

export interface Call {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  agent?: Agent;
}

const ORIGIN = /^https?:\/\/[^/]+/;

/** Sends one request; rejects where the connection fails, or the document does not describe the answer. */
export function call(url: string, key: string | undefined, options: Call = {}): Promise<Answer> {
  const { method = "GET", body, headers = {}, agent } = options;
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const sentAt = performance.now();
    const outgoing = send(
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
          const cameAt = performance.now();
          try {
            const json = received ? JSON.parse(received) : undefined;
            if (new URL(url).pathname.startsWith("/v1")) {
              validateResponse(method, url.replace(ORIGIN, ""), status, headers, json);
            }
            resolve({ status, headers, json, sentAt, cameAt });
          } catch (error) {
            reject(error);
          }
        });
      },
    );
    outgoing.setTimeout(20_000, () => outgoing.destroy(new Error("no answer in 20 s")));
    outgoing.once("error", reject);
    outgoing.end(text);
  });
}

/** What clients under way have met with. */
export interface Load {
  answers: Answer[];
  /** What was neither an answer nor what the client does itself: connections refused or broken. */
  broken: Error[];
  /** Lets the requests under way end. */
  stop(): Promise<void>;
}

/** That many clients, each sending one request after the other, until they are stopped. */
export function startLoad(clients: number, request: (client: number) => Promise<Answer>, pauseMs = 0): Load {
  const load: Load = { answers: [], broken: [], stop: async () => {} };
  let stopped = false;
  const run = async (client: number) => {
    while (!stopped) {
      try {
        load.answers.push(await request(client));
      } catch (error) {
        load.broken.push(error as Error);
      }
      await sleep(pauseMs);
    }
  };
  const running = Promise.all(Array.from({ length: clients }, (_, client) => run(client)));
  load.stop = async () => {
    stopped = true;
    await running;
  };
  return load;
}

/** Statuses and errors with how often each came, for a message. */
export function tally({ answers, broken }: Load): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const what of [
    ...answers.map(({ status }) => String(status)),
    ...broken.map(({ message }) => message),
  ]) {
    counts[what] = (counts[what] ?? 0) + 1;
  }
  return counts;
}

/** Milliseconds from sending to answer: the longest. */
export const slowest = (answers: Answer[]) =>
  Math.max(...answers.map(({ sentAt, cameAt }) => cameAt - sentAt));

/** A client that keeps its one connection. */
export const oneConnection = () => new Agent({ keepAlive: true, maxSockets: 1 });

let day = 0;
/** A stay that no other call has given. */
export const newStay = (listingId: string) => ({
  listingId,
  checkInDate: new Date(Date.UTC(2031, 0, ++day, 15)).toISOString(),
  checkOutDate: new Date(Date.UTC(2031, 0, day + 2, 10)).toISOString(),
  numberOfGuests: 2,
});

/** A create as a careful client sends it: again, with the same Idempotency-Key, until it is acknowledged. */
export async function createSurely(
  url: string,
  key: string,
  body: unknown,
  agent: Agent,
): Promise<{ form: FormV1; attempts: number }> {
  const headers = { "Idempotency-Key": randomUUID() };
  for (let attempts = 1; ; attempts++) {
    const answer = await call(`${url}/v1/forms`, key, { method: "POST", body, headers, agent }).catch(
      () => undefined,
    );
    if (answer?.status === 201) return { form: answer.json as FormV1, attempts };
    if (attempts === 50) throw new Error(`no create in 50 attempts: ${answer?.status}`);
    await sleep(100);
  }
}
