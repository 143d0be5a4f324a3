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
 * An error response. Thrown itself for codes that this version does not know, and, without a `code`, for responses that
 * do not come from the service: a proxy's HTML page, a redirect, invalid JSON, more than 10 MB, a list whose cursors repeat.
 */
export class ApiError extends GuestFormsError {
  /** HTTP status of the response. */
  declare readonly status: number;
  /** Seconds to wait before the next attempt, from `Retry-After`; undefined if the header is absent. */
  declare readonly retryAfter: number | undefined;

  constructor(message: string, details: ErrorDetails & { status: number }) {
    super(message, details);
  }
}

/** 401 `UNAUTHENTICATED`: the key is missing, malformed, unknown, revoked or expired. */
export class UnauthenticatedError extends ApiError {
  declare readonly code: "UNAUTHENTICATED";
}

/** 403 `FORBIDDEN`: a read-only key cannot create or update. */
export class ForbiddenError extends ApiError {
  declare readonly code: "FORBIDDEN";
}

/** 404 `RESOURCE_NOT_FOUND`: it does not exist or is out of the key's scope. The response is the same for both. */
export class ResourceNotFoundError extends ApiError {
  declare readonly code: "RESOURCE_NOT_FOUND";
}

/** 400 `INVALID_CURSOR`: the cursor was altered, or belongs to another list or `listingId`. List from the start. */
export class InvalidCursorError extends ApiError {
  declare readonly code: "INVALID_CURSOR";
}

/** 400 `VALIDATION_ERROR`: the input was rejected; {@link ValidationError.errors} lists every rejected field. */
export class ValidationError extends ApiError {
  declare readonly code: "VALIDATION_ERROR";
  /** One entry per rejected field. */
  readonly errors: readonly FieldError[];

  constructor(message: string, details: ErrorDetails & { status: number }) {
    super(message, details);
    this.errors = details.errors ?? [];
  }
}

/** 413 `PAYLOAD_TOO_LARGE`: the body exceeds the service's limit on bytes, fields or depth. */
export class PayloadTooLargeError extends ApiError {
  declare readonly code: "PAYLOAD_TOO_LARGE";
}

/** 429 `RATE_LIMITED`: too many requests; wait {@link ApiError.retryAfter} seconds. */
export class RateLimitedError extends ApiError {
  declare readonly code: "RATE_LIMITED";
}

/**
 * 422 `IDEMPOTENCY_KEY_REUSED`: this `Idempotency-Key` was already used with a different request body. If the booking
 * changed, update the form of the key, {@link IdempotencyKeyReusedError.formId}. Another booking needs its own key.
 */
export class IdempotencyKeyReusedError extends ApiError {
  declare readonly code: "IDEMPOTENCY_KEY_REUSED";
  /** Id of the form that the key belongs to, which the service's message names; undefined if it is out of scope. */
  readonly formId: string | undefined;

  constructor(message: string, details: ErrorDetails & { status: number }) {
    super(message, details);
    this.formId = /\bform ([\da-f-]{36})\b/.exec(message)?.[1];
  }
}

/** 500 or 503 `INTERNAL_ERROR`: the service failed (500) or is unavailable (503, with {@link ApiError.retryAfter}). */
export class InternalError extends ApiError {
  declare readonly code: "INTERNAL_ERROR";
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

/** The name of each class is written out, because bundlers shorten it. */
const API_ERRORS: [code: KnownErrorCode, name: string, type: typeof ApiError][] = [
  ["UNAUTHENTICATED", "UnauthenticatedError", UnauthenticatedError],
  ["FORBIDDEN", "ForbiddenError", ForbiddenError],
  ["RESOURCE_NOT_FOUND", "ResourceNotFoundError", ResourceNotFoundError],
  ["INVALID_CURSOR", "InvalidCursorError", InvalidCursorError],
  ["VALIDATION_ERROR", "ValidationError", ValidationError],
  ["PAYLOAD_TOO_LARGE", "PayloadTooLargeError", PayloadTooLargeError],
  ["RATE_LIMITED", "RateLimitedError", RateLimitedError],
  ["IDEMPOTENCY_KEY_REUSED", "IdempotencyKeyReusedError", IdempotencyKeyReusedError],
  ["INTERNAL_ERROR", "InternalError", InternalError],
];

const OTHERS = { GuestFormsError, ApiError, ConnectionError, TimeoutError, AbortError };
for (const [name, { prototype }] of Object.entries(OTHERS)) prototype.name = name;
for (const [, name, { prototype }] of API_ERRORS) prototype.name = name;

/** Returns the error class for a code of the error envelope. */
export const errorClassFor = (code: string): typeof ApiError =>
  API_ERRORS.find(([known]) => known === code)?.[2] ?? ApiError;

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
