/** The codes of the error envelope that this version of the SDK has a class for. */
export type KnownErrorCode =
  | "UNAUTHENTICATED"
  | "FORBIDDEN"
  | "RESOURCE_NOT_FOUND"
  | "INVALID_CURSOR"
  | "VALIDATION_ERROR"
  | "PAYLOAD_TOO_LARGE"
  | "RATE_LIMITED"
  | "IDEMPOTENCY_KEY_REUSED"
  | "INTERNAL_ERROR";

/** A code of the error envelope, those included that a later version of the service adds. */
export type ErrorCode = KnownErrorCode | (string & {});

/** Response headers by lower-case name. In a browser, only those that the gateway's CORS settings expose. */
export type ResponseHeaders = Readonly<Record<string, string | undefined>>;

/** One rejected field of a {@link ValidationError}. */
export interface FieldError {
  /** The body property, query parameter or header that was rejected. */
  field: string;
  /** What was wrong with it. */
  issue: string;
}

/** What is known of a failure besides its message. */
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
 * Base class of all errors of this SDK. Thrown itself if the call is wrong and nothing was sent: no key or base URL, an
 * empty id, an invalid Date, a timeout that is not a number. No error contains the API key.
 */
export class GuestFormsError extends Error {
  static {
    GuestFormsError.prototype.name = "GuestFormsError";
  }

  /** HTTP status of the response; undefined if there was none. */
  declare readonly status: number | undefined;
  /** Code of the error envelope: branch on it, never on the message. Undefined if no envelope came. */
  declare readonly code: ErrorCode | undefined;
  /** Id of this response (UUID): quote it to the operator of the service. Undefined if no response came. */
  declare readonly correlationId: string | undefined;
  /** Headers of the response by lower-case name; empty if there was none. Not enumerable, so that logs stay short. */
  declare readonly headers: ResponseHeaders;

  constructor(message: string, details: ErrorDetails = {}) {
    const { cause, headers = {}, status, code, correlationId, retryAfter } = details;
    super(message, cause === undefined ? undefined : { cause });
    // Only what is known becomes a property: consoles print `undefined` ones too.
    for (const [name, value] of Object.entries({ status, code, correlationId, retryAfter })) {
      if (value !== undefined) Object.assign(this, { [name]: value });
    }
    Object.defineProperty(this, "headers", { value: headers });
  }

  /**
   * The error as plain data: name, message and what is known of status, code, correlationId, retryAfter and errors.
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
 * The service responded with an error. Of this class itself: codes this version does not know, and responses that are
 * not the service's own (a proxy's HTML page, a redirect, broken JSON), which have no `code`.
 */
export class ApiError extends GuestFormsError {
  static {
    ApiError.prototype.name = "ApiError";
  }

  /** HTTP status of the response. */
  declare readonly status: number;
  /** Seconds to wait before trying again, from `Retry-After`; undefined if it was not sent. */
  declare readonly retryAfter: number | undefined;

  constructor(message: string, details: ErrorDetails & { status: number }) {
    super(message, details);
  }
}

/** 401 `UNAUTHENTICATED`: the key is missing, malformed, revoked or expired. */
export class UnauthenticatedError extends ApiError {
  static {
    UnauthenticatedError.prototype.name = "UnauthenticatedError";
  }

  declare readonly code: "UNAUTHENTICATED";
}

/** 403 `FORBIDDEN`: the key may not do this; a read-only key creates and updates nothing. */
export class ForbiddenError extends ApiError {
  static {
    ForbiddenError.prototype.name = "ForbiddenError";
  }

  declare readonly code: "FORBIDDEN";
}

/** 404 `RESOURCE_NOT_FOUND`: it does not exist, or is out of the key's scope; the two cannot be told apart. */
export class ResourceNotFoundError extends ApiError {
  static {
    ResourceNotFoundError.prototype.name = "ResourceNotFoundError";
  }

  declare readonly code: "RESOURCE_NOT_FOUND";
}

/** 400 `INVALID_CURSOR`: the cursor was altered, or belongs to another list or another `listingId`: start again. */
export class InvalidCursorError extends ApiError {
  static {
    InvalidCursorError.prototype.name = "InvalidCursorError";
  }

  declare readonly code: "INVALID_CURSOR";
}

/** 400 `VALIDATION_ERROR`: input was rejected; {@link ValidationError.errors} names every field. */
export class ValidationError extends ApiError {
  static {
    ValidationError.prototype.name = "ValidationError";
  }

  declare readonly code: "VALIDATION_ERROR";
  /** One entry for each rejected field. */
  readonly errors: readonly FieldError[];

  constructor(message: string, details: ErrorDetails & { status: number }) {
    super(message, details);
    this.errors = details.errors ?? [];
  }
}

/** 413 `PAYLOAD_TOO_LARGE`: the body is over the service's limit of bytes, fields or depth. */
export class PayloadTooLargeError extends ApiError {
  static {
    PayloadTooLargeError.prototype.name = "PayloadTooLargeError";
  }

  declare readonly code: "PAYLOAD_TOO_LARGE";
}

/** 429 `RATE_LIMITED`: the key's rate limit is used up; wait {@link ApiError.retryAfter} seconds. */
export class RateLimitedError extends ApiError {
  static {
    RateLimitedError.prototype.name = "RateLimitedError";
  }

  declare readonly code: "RATE_LIMITED";
}

/** 422 `IDEMPOTENCY_KEY_REUSED`: this Idempotency-Key already created a form from another body. */
export class IdempotencyKeyReusedError extends ApiError {
  static {
    IdempotencyKeyReusedError.prototype.name = "IdempotencyKeyReusedError";
  }

  declare readonly code: "IDEMPOTENCY_KEY_REUSED";
}

/** 500 or 503 `INTERNAL_ERROR`: the service failed, or is away for {@link ApiError.retryAfter} seconds. */
export class InternalError extends ApiError {
  static {
    InternalError.prototype.name = "InternalError";
  }

  declare readonly code: "INTERNAL_ERROR";
}

/**
 * No complete response: refused, reset, or cut off in the body (then `status` and `headers` tell what had arrived).
 * Whether a write was done is unknown; repeating it with the same Idempotency-Key is safe. `cause` is a copy of the
 * platform's error.
 */
export class ConnectionError extends GuestFormsError {
  static {
    ConnectionError.prototype.name = "ConnectionError";
  }
}

/** The call's `timeout` passed before it was done, all tries included. `cause` is the last try's failure, if any. */
export class TimeoutError extends ConnectionError {
  static {
    TimeoutError.prototype.name = "TimeoutError";
  }
}

/**
 * The call's `signal` was aborted; also by `AbortSignal.timeout()`. `cause` is the signal's `reason`. Nothing more is
 * sent, but whether a write was done is unknown.
 */
export class AbortError extends GuestFormsError {
  static {
    AbortError.prototype.name = "AbortError";
  }
}

const byCode = new Map<string, typeof ApiError>([
  ["UNAUTHENTICATED", UnauthenticatedError],
  ["FORBIDDEN", ForbiddenError],
  ["RESOURCE_NOT_FOUND", ResourceNotFoundError],
  ["INVALID_CURSOR", InvalidCursorError],
  ["VALIDATION_ERROR", ValidationError],
  ["PAYLOAD_TOO_LARGE", PayloadTooLargeError],
  ["RATE_LIMITED", RateLimitedError],
  ["IDEMPOTENCY_KEY_REUSED", IdempotencyKeyReusedError],
  ["INTERNAL_ERROR", InternalError],
]);

/** The error class of an envelope's code. */
export const errorClass = (code: string): typeof ApiError => byCode.get(code) ?? ApiError;

/** Removes the key from text from outside: a proxy's page may echo request headers. */
export const redact = (text: string, key: string): string => text.replaceAll(key, "[redacted]");

/** At most `max` characters of a text, on one line. */
export function clip(text: string, max: number): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > max ? `${line.slice(0, max)}…` : line;
}

/** A copy of a foreign error, without the key and without whatever else hangs on it (requests, headers). */
export function copyError(error: unknown, key: string, depth = 0): Error {
  const source: { name?: unknown; message?: unknown; code?: unknown; cause?: unknown } =
    typeof error === "object" && error !== null ? error : { message: error };
  const copy = new Error(redact(String(source.message ?? ""), key));
  copy.name = redact(String(source.name ?? "Error"), key);
  // The trace of the copying says nothing of the failure.
  copy.stack = `${copy.name}: ${copy.message}`;
  if (typeof source.code === "string") Object.assign(copy, { code: redact(source.code, key) });
  if (source.cause !== undefined && depth < 4) copy.cause = copyError(source.cause, key, depth + 1);
  return copy;
}
