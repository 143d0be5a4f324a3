import { type ErrorDetails, type FieldError, GuestFormsError, nameErrors } from "./errors.js";
import type { KnownErrorCode } from "./schema.js";

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

/** 400 `INVALID_CURSOR`: the cursor was altered, or belongs to another list or other filters. List from the start. */
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
 * changed, update the form of the key, {@link IdempotencyKeyReusedError.formId}. Another booking needs its own
 * key, or none and its own `externalId`.
 */
export class IdempotencyKeyReusedError extends ApiError {
  declare readonly code: "IDEMPOTENCY_KEY_REUSED";
  /** Id of the form that the key belongs to; undefined if it is out of scope. */
  readonly formId: string | undefined;

  constructor(message: string, details: ErrorDetails & { status: number }) {
    super(message, details);
    // Version 1.0 of the service names it in the message only.
    this.formId = /\bform[s/ ]+([\da-f-]{36})\b/.exec(`${details.headers?.location} ${message}`)?.[1];
  }
}

/** 500 or 503 `INTERNAL_ERROR`: the service failed (500) or is unavailable (503, with {@link ApiError.retryAfter}). */
export class InternalError extends ApiError {
  declare readonly code: "INTERNAL_ERROR";
}

nameErrors({
  ApiError,
  UnauthenticatedError,
  ForbiddenError,
  ResourceNotFoundError,
  InvalidCursorError,
  ValidationError,
  PayloadTooLargeError,
  RateLimitedError,
  IdempotencyKeyReusedError,
  InternalError,
});

const BY_CODE: Record<KnownErrorCode, typeof ApiError> = {
  UNAUTHENTICATED: UnauthenticatedError,
  FORBIDDEN: ForbiddenError,
  RESOURCE_NOT_FOUND: ResourceNotFoundError,
  INVALID_CURSOR: InvalidCursorError,
  VALIDATION_ERROR: ValidationError,
  PAYLOAD_TOO_LARGE: PayloadTooLargeError,
  RATE_LIMITED: RateLimitedError,
  IDEMPOTENCY_KEY_REUSED: IdempotencyKeyReusedError,
  INTERNAL_ERROR: InternalError,
};

/** Returns the error class for a code of the error envelope. */
export const errorClassFor = (code: string): typeof ApiError =>
  Object.hasOwn(BY_CODE, code) ? BY_CODE[code as KnownErrorCode] : ApiError;
