import { ApiError, errorClassFor } from "./api-errors.js";
import { type FieldError, type GuestFormsError, type ResponseHeaders, redact, truncate } from "./errors.js";
import { isObject, parseJson } from "./json.js";
import type { ParsedResponse } from "./promise.js";
import { type AbortSignalLike, type FetchResponse, runtime } from "./runtime.js";

/** A page of 100 items has less than 1 MB. */
export const MAX_RESULT_BYTES = 10_000_000;

/** What a call expects of a response. */
export interface Expectation {
  method: string;
  path: string;
  /** Whether `json`, undefined if the body is not valid JSON, is a result of this operation. */
  isExpected(json: unknown, status: number): boolean;
}

export type Failure = { error: GuestFormsError; retryable: boolean };
export type Outcome = { response: ParsedResponse<unknown> } | Failure;

/** Turns a response into a result or an error. */
export function parseResponse(
  call: Expectation,
  baseUrl: string,
  status: number,
  headers: ResponseHeaders,
  { text, isWhole }: { text: string; isWhole: boolean },
  key: string,
): Outcome {
  const ok = isSuccess(status);
  const json = isWhole ? parseJson(ok ? text : redact(text, key)) : undefined;
  if (ok && call.isExpected(json, status)) {
    const replayed = headers["idempotent-replayed"] === "true";
    return { response: { result: { data: json, response: { status, headers }, replayed }, text } };
  }
  const target = baseUrl + call.path;
  const details = { status, headers, retryAfter: retryAfterSeconds(headers) };
  const retryable = status === 429 || status >= 500;
  if (!ok && isObject(json) && typeof json.code === "string" && typeof json.message === "string") {
    const { code, message, correlationId } = json;
    const errors = Array.isArray(json.errors) ? json.errors.filter(isFieldError) : [];
    const label = `${call.method} ${new runtime.URL(target).pathname}: ${status}`;
    const error = new (errorClassFor(code))(`${label} ${truncate(summarize(errors) || message, 500)}`, {
      ...details,
      code,
      correlationId: typeof correlationId === "string" ? correlationId : undefined,
      errors,
    });
    return { error, retryable };
  }
  const type = truncate(headers["content-type"] ?? "no content type", 100);
  // In browsers, a redirect that was not followed has status 0.
  const problem =
    status === 0 || (status >= 300 && status < 400)
      ? "a redirect. Redirects are not followed, to protect the key: check baseUrl"
      : ok && !isWhole
        ? `more than ${MAX_RESULT_BYTES / 1e6} MB, which no response of this service has: check baseUrl`
        : `not a response of this service (${type}): ${excerpt(redact(text, key))}`;
  const error = new ApiError(`${call.method} ${target}: ${status}, ${problem}`, details);
  // Invalid JSON in a 2xx is a body that was cut off without Content-Length: retry it like any other cut-off body.
  return { error, retryable: retryable || (ok && isWhole && json === undefined && type.includes("json")) };
}

export const isSuccess = (status: number) => status >= 200 && status < 300;

const isFieldError = (entry: unknown): entry is FieldError =>
  isObject(entry) && typeof entry.field === "string" && typeof entry.issue === "string";

/** Names the first three rejected fields. */
function summarize(errors: FieldError[]): string {
  const first = errors.slice(0, 3).map(({ field, issue }) => `${field}: ${issue}`);
  if (errors.length > 3) first.push(`and ${errors.length - 3} more`);
  return first.join("; ");
}

/** The beginning of a response body, without HTML tags. */
const excerpt = (page: string): string =>
  truncate(page.slice(0, 5_000).replace(/<(style|script)\b.*?<\/\1>|<[^>]*>/gis, " "), 200) || "an empty body";

/** Headers by lower-case name, without the key. */
export function readHeaders(source: { forEach(visit: (value: string, name: string) => void): void }, key: string) {
  const entries: [string, string][] = [];
  source.forEach((value, name) => {
    entries.push([name.toLowerCase(), redact(value, key)]);
  });
  return Object.fromEntries(entries);
}

/** The part of a web stream that the SDK uses. Bodies of other kinds, such as those of node-fetch, have no reader. */
interface ByteStream {
  getReader?(): { read(): Promise<{ value?: Uint8Array }>; cancel(): Promise<void> };
}

/**
 * Reads a body, at most `maxBytes` after decompression. A longer one is cut off, and its connection is closed. Without a
 * reader, the custom `fetch` limits what it reads.
 */
export async function readBody(response: FetchResponse, maxBytes: number, signal: AbortSignalLike) {
  const reader = (response.body as ByteStream | null | undefined)?.getReader?.();
  if (!reader) {
    const text = await response.text();
    return { text: text.slice(0, maxBytes), isWhole: text.length <= maxBytes };
  }
  // One buffer, because each chunk may be a single byte.
  let bytes = new Uint8Array(16_384);
  let length = 0;
  let isWhole = true;
  const cancel = () => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", cancel);
  try {
    while (isWhole) {
      const { value } = await reader.read();
      if (!value) break;
      const part = value.subarray(0, maxBytes - length);
      isWhole = part.length === value.length;
      if (length + part.length > bytes.length) {
        const larger = new Uint8Array(Math.max(length + part.length, 2 * bytes.length));
        larger.set(bytes);
        bytes = larger;
      }
      bytes.set(part, length);
      length += part.length;
    }
  } finally {
    signal.removeEventListener("abort", cancel);
    cancel();
  }
  return { text: new runtime.TextDecoder().decode(bytes.subarray(0, length)), isWhole };
}

/** Parses `Retry-After`: whole seconds, or an HTTP date relative to the response's `Date`. */
function retryAfterSeconds(headers: ResponseHeaders): number | undefined {
  const value = headers["retry-after"];
  if (!value) return undefined;
  const seconds = Math.ceil(Number(value));
  if (seconds >= 0 && seconds < Infinity) return seconds;
  const waitMs = Date.parse(value) - (Date.parse(headers.date ?? "") || Date.now());
  return waitMs >= 0 ? Math.ceil(waitMs / 1000) : undefined;
}
