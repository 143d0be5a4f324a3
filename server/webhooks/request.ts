import http from "node:http";
import https from "node:https";
import { isIP } from "node:net";
import type { Settings } from "../config.js";
import { SendingFailed } from "../outbox/attempt.js";
import { UNUSABLE_ADDRESS } from "./addresses.js";
import { type AgentOptions, openAgents } from "./agents.js";
import { RECEIVED_TOO_MUCH, receivedTooMuch } from "./connection.js";

export { UNUSABLE_ADDRESS };

// The HTTP request of a delivery. Owners choose the URLs, so unless WEBHOOK_ALLOW_PRIVATE_ADDRESSES is set it must not reach the
// operator's network, nor tell by its errors what is there. What receivers send is bounded by `connection.ts` and here.

/** The receiver must have answered after this time. */
const TIMEOUT_MS = 10_000;
/** Before the answer. */
const MAX_INTERIM_RESPONSES = 8;
/** Of an answer, only this much is read: more than is kept. */
const MAX_BODY_BYTES = 16_384;
/** In at most so many pieces: each costs about as much as 1 kB. */
const MAX_BODY_PIECES = 256;
/** Headers of an answer, and of each interim response. */
const MAX_HEADER_BYTES = 16_384;
/** A receiver can postpone an attempt by as much as our own longest pause. */
const MAX_RETRY_AFTER_SECONDS = 6 * 3600;

const NO_ANSWER = `no answer within ${TIMEOUT_MS / 1000} s`;

export interface Answer {
  status: number;
  body: string;
  /** Until the headers. */
  durationMs: number;
  retryAfterSeconds: number | null;
}

/** An attempt that failed: with an answer, or without one if none came. */
export class DeliveryFailed extends SendingFailed {
  readonly answer: Answer | undefined;
  /** Null if no connection was attempted. */
  readonly durationMs: number | null;

  constructor(reason: string, { answer, durationMs = null }: { answer?: Answer; durationMs?: number | null } = {}) {
    super(reason, answer?.status === GONE);
    this.answer = answer;
    this.durationMs = answer?.durationMs ?? durationMs;
  }
}

/** The status by which a receiver asks for no more events. */
const GONE = 410;

/** Why deliveries are not sent to this URL; undefined if they are. Names are resolved only when they are sent. */
export function whyUrlIsRefused(
  url: string,
  { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: allowsPrivate }: Pick<Settings, "WEBHOOK_ALLOW_PRIVATE_ADDRESSES">,
): string | undefined {
  if (!URL.canParse(url)) return "must be a URL such as https://example.com/webhooks";
  const { protocol, hostname, username, password } = new URL(url);
  if (protocol !== "https:" && !(allowsPrivate && protocol === "http:")) return "must be an https URL";
  if (username || password) return "must not contain a user name or a password";
  if (!allowsPrivate && isIP(hostname.replace(/^\[|\]$/g, ""))) return "must have a host name instead of an IP address";
  return undefined;
}

export type Post = (url: string, headers: Record<string, string>, body: string) => Promise<Answer>;

/** Returns the function that sends a delivery. It resolves to the answer if that is 2xx, and otherwise rejects with DeliveryFailed. */
export function createPost(
  settings: Pick<Settings, "WEBHOOK_ALLOW_PRIVATE_ADDRESSES">,
  options: AgentOptions = {},
): Post {
  const agents = openAgents(settings, TIMEOUT_MS, options);
  return async (text, headers, body) => {
    if (whyUrlIsRefused(text, settings)) throw new DeliveryFailed(UNUSABLE_ADDRESS);
    const url = new URL(text);
    const request = { method: "POST", headers, maxHeaderSize: MAX_HEADER_BYTES };
    const sending =
      url.protocol === "https:"
        ? https.request(url, { ...request, agent: agents.https })
        : http.request(url, { ...request, agent: agents.http });
    const answer = await send(sending, body);
    if (answer.status >= 200 && answer.status < 300) return answer;
    const hint = answer.status >= 300 && answer.status < 400 ? ": redirects are not followed" : "";
    throw new DeliveryFailed(`answered ${answer.status}${hint}`, { answer });
  };
}

function send(sending: http.ClientRequest, body: string): Promise<Answer> {
  const start = performance.now();
  const elapsed = () => Math.round(performance.now() - start);
  return new Promise((resolve, reject) => {
    /** Ends the attempt, whatever was or was not received until then. */
    let end = () => reject(new DeliveryFailed(NO_ANSWER, { durationMs: elapsed() }));
    let isAnswered = false;
    const timer = setTimeout(() => {
      end();
      sending.destroy();
    }, TIMEOUT_MS);
    // From an answer on, its status decides, even if the body does not end.
    sending.on("error", (error) => (isAnswered ? end() : reject(toFailure(error, elapsed()))));
    let interimResponses = 0;
    sending.on("information", () => {
      if (++interimResponses > MAX_INTERIM_RESPONSES) sending.destroy(receivedTooMuch());
    });
    sending.on("upgrade", (_response, socket) => {
      reject(new DeliveryFailed("answered 101", { durationMs: elapsed() }));
      socket.destroy();
    });
    sending.on("close", () => {
      clearTimeout(timer);
      end();
    });
    sending.on("response", (response) => {
      const { statusCode: status = 0, headers } = response;
      const durationMs = elapsed();
      const chunks: Buffer[] = [];
      let bytes = 0;
      isAnswered = true;
      end = () => {
        const retryAfterSeconds = parseRetryAfter(headers["retry-after"]);
        resolve({ status, body: Buffer.concat(chunks).toString("utf8"), durationMs, retryAfterSeconds });
      };
      response.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes >= MAX_BODY_BYTES || chunks.length >= MAX_BODY_PIECES) response.destroy();
      });
      response.on("error", () => {});
      response.on("close", () => end());
    });
    sending.end(body);
  });
}

/** The seconds of a Retry-After header (RFC 9110, 10.2.3); null if there is none. */
function parseRetryAfter(header: string | undefined): number | null {
  if (header === undefined) return null;
  const seconds = /^\d{1,9}$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.min(Math.max(Math.ceil(seconds), 0), MAX_RETRY_AFTER_SECONDS) : null;
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was closed without an answer",
  EPIPE: "the connection was closed without an answer",
  [RECEIVED_TOO_MUCH]: "sent too much before its answer",
  // No address has connected in time.
  ABORT_ERR: NO_ANSWER,
};

/** Errors of the lookup and of the agent's filter have no code, those of a connection have one. */
function toFailure(error: NodeJS.ErrnoException, durationMs: number): DeliveryFailed {
  const { code } = error;
  if (code === undefined) return new DeliveryFailed(UNUSABLE_ADDRESS);
  return new DeliveryFailed(REASONS[code] ?? `the request failed: ${code}`, { durationMs });
}
