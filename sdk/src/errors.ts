import type { KnownErrorCode } from "./schema.js";

/** A code of the error envelope. Later versions of the service may add codes. */
export type ErrorCode = KnownErrorCode | (string & {});

/** Response headers by lower-case name. In a browser, only those that the gateway's CORS settings expose. */
export type ResponseHeaders = Readonly<Record<string, string | undefined>>;

/** One rejected field of a {@link ValidationError}. */
export interface FieldError {
  /** What was rejected: a property, a query parameter, a header, `body` or `request`. */
  field: string;
  /** Why it was rejected, for humans. */
  issue: string;
}

/** Details of a failure, besides its message. */
export interface ErrorDetails {
  /** HTTP status of the response. */
  status?: number | undefined;
  /** Code of the error envelope. */
  code?: ErrorCode | undefined;
  /** Correlation id of the response. */
  correlationId?: string | undefined;
  /** Headers of the response, by lower-case name. */
  headers?: ResponseHeaders | undefined;
  /** Seconds to wait, from `Retry-After`. */
  retryAfter?: number | undefined;
  /** The rejected fields. */
  errors?: FieldError[] | undefined;
  /** What caused the failure. */
  cause?: unknown;
}

/**
 * Base class of all errors of this SDK. Thrown itself, before any request, if a call is invalid: no key or base URL, an
 * empty id, an invalid Date, a timeout that is not a number. No error contains the API key.
 */
export class GuestFormsError extends Error {
  /** HTTP status; undefined without a response. */
  declare readonly status: number | undefined;
  /** Code of the error envelope: branch on it, not on the message. Undefined without an error envelope. */
  declare readonly code: ErrorCode | undefined;
  /** Correlation id (UUID) of the response: quote it to the operator of the service. Undefined without a response. */
  declare readonly correlationId: string | undefined;
  /** Response headers by lower-case name; empty without a response. Not enumerable, to keep logs short. */
  declare readonly headers: ResponseHeaders;

  constructor(message: string, details: ErrorDetails = {}) {
    const { cause, headers = {}, status, retryAfter } = details;
    const code = details.code && truncate(details.code, 100);
    const correlationId = truncate(details.correlationId ?? headers["x-correlation-id"] ?? "", 100) || undefined;
    super(message, cause === undefined ? undefined : { cause });
    // Omit undefined properties, because consoles print them.
    for (const [name, value] of Object.entries({ status, code, correlationId, retryAfter })) {
      if (value !== undefined) Object.assign(this, { [name]: value });
    }
    Object.defineProperty(this, "headers", { value: headers });
  }

  /**
   * Returns the error as plain data: name, message and, if set, status, code, correlationId, retryAfter, errors and formId.
   *
   * @example
   * ```ts
   * await client.forms.retrieve(id).catch((error) => console.error(JSON.stringify(error)));
   * ```
   */
  toJSON(): Record<string, unknown> {
    const json: Record<string, unknown> = { name: this.name, message: this.message };
    return Object.assign(json, this);
  }
}

/**
 * No complete response: the connection was refused, reset, or closed in the middle of the body (then `status` and
 * `headers` are set). A write may have taken effect; repeating the same call is safe. `cause` is a copy of the platform's
 * error.
 */
export class ConnectionError extends GuestFormsError {}

/** The call, including its retries, exceeded its `timeout`. `cause` is the error of the last failed attempt, if any. */
export class TimeoutError extends ConnectionError {}

/**
 * The call's `signal` was aborted, including by `AbortSignal.timeout()`. `cause` is the signal's `reason`. A write may
 * have taken effect.
 */
export class AbortError extends GuestFormsError {}

/** Names classes for consoles, because bundlers shorten their own names. */
export function nameErrors(classes: Record<string, { prototype: Error }>): void {
  for (const [name, { prototype }] of Object.entries(classes)) prototype.name = name;
}

nameErrors({ GuestFormsError, ConnectionError, TimeoutError, AbortError });

/** Removes the key from a response: a proxy's page may echo request headers. */
export const redact = (text: string, key: string): string => text.replaceAll(key, "[redacted]");

/** Shortens a text to one line of `max` characters, without control characters, which terminals would obey. */
export function truncate(text: string, max: number): string {
  const line = text.replace(/[\s\p{Cc}]+/gu, " ").trim();
  return line.length > max ? `${line.slice(0, max)}…` : line;
}

/** Copies an error of `fetch` without the key and without other properties, such as its request. */
export function sanitizeError(error: unknown, key: string, depth = 0): Error {
  const source: { name?: unknown; message?: unknown; code?: unknown; cause?: unknown } =
    typeof error === "object" && error !== null ? error : { message: error };
  const copy = new Error(truncate(redact(String(source.message ?? ""), key), 500));
  copy.name = redact(String(source.name ?? "Error"), key);
  // Drop the stack trace, which points to this function.
  copy.stack = `${copy.name}: ${copy.message}`;
  if (typeof source.code === "string") Object.assign(copy, { code: redact(source.code, key) });
  if (source.cause !== undefined && depth < 4) copy.cause = sanitizeError(source.cause, key, depth + 1);
  return copy;
}
