import { GuestFormsError } from "./errors.js";
import type { WebhookEvent } from "./events.js";
import { runtime } from "./runtime.js";

// Signatures follow Standard Webhooks: gateway/docs/contract.md#webhooks,
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.

export * from "./events.js";

/** The body of a webhook request, exactly as received: a string, or bytes such as a `Buffer`. */
export type WebhookBody = string | Uint8Array | ArrayBuffer;

/** Headers of a request: those of `Request`, or an object such as `request.headers` of Node. Case of names does not matter. */
export type WebhookHeaders =
  | { get(name: string): string | null }
  | { readonly [name: string]: string | readonly string[] | undefined };

/** Options of {@link unwrapWebhook}. */
export interface UnwrapOptions {
  /** How much a request may be older or newer than now, in seconds. Default: 300. `Infinity`: any age. */
  toleranceSeconds?: number | undefined;
}

/** Options of {@link signWebhook}. */
export interface SignOptions {
  /** The `webhook-id`. Default: a random UUID. */
  id?: string | undefined;
  /** When the request is sent. Default: now. */
  timestamp?: Date | undefined;
}

/** A request as the service sends it. */
export interface SignedWebhook {
  /** JSON of the event. */
  body: string;
  /** All headers to send. */
  headers: Record<"content-type" | "webhook-id" | "webhook-timestamp" | "webhook-signature", string>;
}

/**
 * Why a request was rejected.
 *
 * - `missing_header`: it has no `webhook-id`, `webhook-timestamp` or `webhook-signature`.
 * - `malformed_header`: `webhook-timestamp` is not a number of seconds.
 * - `bad_signature`: it was signed with another secret, or changed after it was signed.
 * - `too_old`, `too_new`: the signature is right, but it was sent longer ago, or further in the future, than `toleranceSeconds`.
 * - `malformed_body`: the signature is right, but the body is not an event; or the body has more than 1 MB.
 */
export type WebhookRejection =
  | "missing_header"
  | "malformed_header"
  | "bad_signature"
  | "too_old"
  | "too_new"
  | "malformed_body";

/**
 * A webhook request that must not be processed: answer it with 400. `reason` says why. The message contains neither the
 * secret nor the body.
 */
export class WebhookVerificationError extends GuestFormsError {
  static {
    WebhookVerificationError.prototype.name = "WebhookVerificationError";
  }

  /** Why the request was rejected: branch on it, not on the message. */
  readonly reason: WebhookRejection;

  constructor(message: string, reason: WebhookRejection) {
    super(message);
    this.reason = reason;
  }
}

/** Events have a few kB. A forged request of any size must not take time. */
const MAX_BODY_BYTES = 1_000_000;

/** A sender has at most two secrets. More signatures only make a forged request slower to reject. */
const MAX_SIGNATURES = 8;

/**
 * Verifies a webhook request, and returns its event. Later versions of the service may send events of other types, which are
 * returned too: ignore a `type` that you do not know.
 *
 * The same event can arrive more than once, each time with the same `webhook-id`: ignore one that you have processed.
 *
 * @param body The raw body, before anything parses it.
 * @param headers The headers of the request.
 * @param secrets The endpoint's secret (`whsec_…`), or several while it is rotated: one of them must match.
 * @throws {WebhookVerificationError} If the request was not sent by the service, or too long ago.
 * @throws {GuestFormsError} If the call is invalid: a secret is missing or malformed, or the body is already parsed.
 * @example
 * ```ts
 * async function receive(request: Request): Promise<Response> {
 *   const event = await unwrapWebhook(await request.text(), request.headers, secret);
 *   if (event.type === "form.status_changed") console.log(event.data.form.id, event.data.to);
 *   return new Response();
 * }
 * ```
 */
export async function unwrapWebhook(
  body: WebhookBody,
  headers: WebhookHeaders,
  secrets: string | readonly string[],
  options: UnwrapOptions = {},
): Promise<WebhookEvent> {
  const { toleranceSeconds = 300 } = options;
  if (!(toleranceSeconds >= 0)) throw new GuestFormsError("toleranceSeconds must be a number, at least 0");
  const bytes = bytesOf(body);
  if (bytes.length > MAX_BODY_BYTES) {
    throw new WebhookVerificationError(
      "The body of the webhook request has more than 1 MB. The service has not sent it: reject it.",
      "malformed_body",
    );
  }
  const keys = await importKeys(secrets, "verify");
  const { id, timestamp, signature } = readHeaders(headers);
  const content = contentOf(id, timestamp, bytes);
  if (!(await matchesAny(keys, signature, content))) {
    throw new WebhookVerificationError(
      "No signature of the webhook request matches. Check that the secret is that of this endpoint, and that the body is as " +
        "received, not parsed and serialized again. Otherwise the request is forged: reject it.",
      "bad_signature",
    );
  }
  checkAge(Number(timestamp), toleranceSeconds);
  return parseEvent(bytes);
}

/**
 * Signs an event as the service does, for tests of a receiver.
 *
 * @param event The event, or a body.
 * @param secret The secret of the receiver, or several, as while the service rotates one.
 * @throws {GuestFormsError} If a secret is missing or malformed, or the timestamp is invalid.
 * @example
 * ```ts
 * const now = new Date().toISOString();
 * const event: WebhookEvent = { type: "webhook.test", timestamp: now, sentAt: now, data: {} };
 * const { body, headers } = await signWebhook(event, secret);
 * await fetch("http://127.0.0.1:8080/webhooks", { method: "POST", body, headers });
 * ```
 */
export async function signWebhook(
  event: WebhookEvent | string,
  secret: string | readonly string[],
  options: SignOptions = {},
): Promise<SignedWebhook> {
  const keys = await importKeys(secret, "sign");
  const { id = webCrypto().randomUUID(), timestamp = new Date() } = options;
  const seconds = String(Math.floor(timestamp.getTime() / 1000));
  if (!TIMESTAMP.test(seconds)) throw new GuestFormsError("timestamp must be a Date since 1970");
  const body = typeof event === "string" ? event : JSON.stringify(event);
  const content = contentOf(id, seconds, bytesOf(body));
  const signatures = await Promise.all(keys.map((key) => webCrypto().subtle.sign("HMAC", key, content)));
  return {
    body,
    headers: {
      "content-type": "application/json",
      "webhook-id": id,
      "webhook-timestamp": seconds,
      "webhook-signature": signatures.map((one) => `v1,${encodeBase64(new Uint8Array(one))}`).join(" "),
    },
  };
}

/** Web Crypto. Read at each use, like all of {@link runtime}. */
function webCrypto() {
  const { crypto } = runtime;
  if (crypto?.subtle) return crypto;
  throw new GuestFormsError(
    "This runtime has no Web Crypto (crypto.subtle). Browsers have it only on pages over https.",
  );
}

/** Also takes the bytes of another realm, such as Jest's. */
function bytesOf(body: WebhookBody): Uint8Array {
  if (typeof body === "string") return new runtime.TextEncoder().encode(body);
  if (ArrayBuffer.isView(body)) return body;
  if (Object.prototype.toString.call(body) === "[object ArrayBuffer]") return new Uint8Array(body);
  throw new GuestFormsError(
    "The body of a webhook request must be raw: a string or bytes, as received. Read it before anything parses it: in Express with " +
      'express.raw({ type: "application/json" }), otherwise for example with request.text().',
  );
}

const importKeys = (secrets: string | readonly string[], usage: "sign" | "verify") => {
  const all = typeof secrets === "string" ? [secrets] : (secrets ?? []);
  if (all.length === 0) throw new GuestFormsError(`No webhook secret. ${EXPECTED_SECRET}`);
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  return Promise.all(
    all.map((secret) => webCrypto().subtle.importKey("raw", decodeSecret(secret), algorithm, false, [usage])),
  );
};

const EXPECTED_SECRET = "Pass the secret that the endpoint was created with: whsec_ and Base64.";

function decodeSecret(secret: string): Uint8Array {
  const [, base64 = ""] = /^\s*whsec_(\S+)\s*$/.exec(secret) ?? [];
  const key = decodeBase64(base64);
  if (key?.length) return key;
  throw new GuestFormsError(`The webhook secret is ${secret ? "malformed" : "missing"}. ${EXPECTED_SECRET}`);
}

const TIMESTAMP = /^\d{1,12}$/;

/** Throws if a header is missing or malformed. */
function readHeaders(headers: WebhookHeaders): Record<"id" | "timestamp" | "signature", string> {
  const [id = "", timestamp = "", signature = ""] = HEADER_NAMES.map((name) => readHeader(headers, name));
  const missing = HEADER_NAMES.filter((_, index) => ![id, timestamp, signature][index]);
  if (missing.length > 0) {
    throw new WebhookVerificationError(
      `The webhook request has no ${missing.join(", ")}. Check that your proxy passes these headers on. Otherwise the service ` +
        "has not sent the request: reject it.",
      "missing_header",
    );
  }
  if (!TIMESTAMP.test(timestamp)) {
    throw new WebhookVerificationError(
      "The webhook-timestamp of the webhook request is not a number of seconds. The service has not sent it: reject it.",
      "malformed_header",
    );
  }
  return { id, timestamp, signature };
}

const HEADER_NAMES = ["webhook-id", "webhook-timestamp", "webhook-signature"];

function readHeader(headers: WebhookHeaders, name: string): string | undefined {
  if (typeof headers.get === "function") return headers.get(name) ?? undefined;
  const [, value] = Object.entries(headers).find(([key]) => key.toLowerCase() === name) ?? [];
  return typeof value === "object" ? value.join(" ") : value;
}

/** What is signed: `{id}.{timestamp}.{body}`. */
function contentOf(id: string, timestamp: string, body: Uint8Array): Uint8Array {
  const head = bytesOf(`${id}.${timestamp}.`);
  const content = new Uint8Array(head.length + body.length);
  content.set(head);
  content.set(body, head.length);
  return content;
}

/** Whether one of the signatures is by one of the keys. `verify` takes the same time for every wrong signature. */
async function matchesAny(keys: readonly unknown[], header: string, content: Uint8Array): Promise<boolean> {
  const signatures = header.split(/\s+/).filter((one) => one.startsWith("v1,"));
  for (const signature of signatures.slice(0, MAX_SIGNATURES)) {
    const bytes = decodeBase64(signature.slice("v1,".length));
    if (!bytes) continue;
    for (const key of keys) if (await webCrypto().subtle.verify("HMAC", key, bytes, content)) return true;
  }
  return false;
}

function checkAge(timestamp: number, toleranceSeconds: number): void {
  const age = Math.round(Date.now() / 1000 - timestamp);
  if (Math.abs(age) <= toleranceSeconds) return;
  const sent = `The webhook request was sent ${Math.abs(age)} s ${age > 0 ? "ago" : "in the future"}`;
  const recorded = age > 0 ? " If it is right, someone has recorded the request and sends it again: reject it." : "";
  throw new WebhookVerificationError(
    `${sent}, and at most ${toleranceSeconds} s are tolerated. Check the clock of this machine.${recorded}`,
    age > 0 ? "too_old" : "too_new",
  );
}

function parseEvent(bytes: Uint8Array): WebhookEvent {
  let event: WebhookEvent | null | undefined;
  try {
    event = JSON.parse(new runtime.TextDecoder().decode(bytes));
  } catch {
    // No `cause`: the message of the parser quotes the body.
  }
  if (typeof event?.type === "string") return event;
  throw new WebhookVerificationError(
    "The body of the webhook request is not an event: JSON of an object with a `type`. Check that the secret is used only by this service.",
    "malformed_body",
  );
}

const encodeBase64 = (bytes: Uint8Array) => runtime.btoa(String.fromCharCode(...bytes));

function decodeBase64(base64: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(runtime.atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
