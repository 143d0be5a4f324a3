import { TRPCError } from "@trpc/server";
import type { z } from "zod";

type TrpcCode = ConstructorParameters<typeof TRPCError>[0]["code"];

export interface ErrorEntry {
  status: number;
  trpc: TrpcCode;
  /** Default message. */
  message: string;
  /** When a request gets it, for the documents. */
  condition: string;
  /** Whether to retry, for the documents. */
  retry: string;
  /** Other statuses with this code, and when a request gets them. */
  also?: Record<number, string>;
}

/**
 * Every error code. The gateway, the OpenAPI document, the contract and the SDK's error classes derive from this table.
 */
export const ERRORS = {
  UNAUTHENTICATED: {
    status: 401,
    trpc: "UNAUTHORIZED",
    // The same for all three, so that nobody learns which keys exist.
    message: "The API key is unknown, revoked or expired. Ask the operator of the service for a new one.",
    condition:
      "The key is missing, malformed, unknown, revoked, expired or sent twice. With `WWW-Authenticate: Bearer`.",
    retry: "no",
  },
  FORBIDDEN: {
    status: 403,
    trpc: "FORBIDDEN",
    message: "This key is read-only. Use a read-write key.",
    condition: "Create or update with a read-only key",
    retry: "no",
  },
  RESOURCE_NOT_FOUND: {
    status: 404,
    trpc: "NOT_FOUND",
    message: "The resource does not exist, or you have no access to it.",
    condition: "The form or listing does not exist or is out of scope; the path is unknown",
    retry: "no",
    also: { 405: "The path does not support the method. With `Allow`." },
  },
  INVALID_CURSOR: {
    status: 400,
    trpc: "BAD_REQUEST",
    message: "Invalid cursor. Use a `nextCursor` returned by this endpoint with the same filters.",
    condition: "See [Lists](#lists)",
    retry: "from the first page",
  },
  VALIDATION_ERROR: {
    status: 400,
    trpc: "BAD_REQUEST",
    message: "The request is not valid: see errors.",
    condition: "A property, parameter or header is wrong, or the request is not well-formed HTTP",
    retry: "after you fix it",
    also: {
      408: "The request did not arrive in time; field `request`",
      415: "The content type, charset or encoding of the body is not supported",
      417: "The request has an unsupported `Expect`; field `request`",
      431: "The headers are too large; field `request`",
    },
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    trpc: "PAYLOAD_TOO_LARGE",
    message: "The request body is too large.",
    condition: "The body exceeds a limit in [Request bodies](#request-bodies)",
    retry: "no",
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 422,
    trpc: "UNPROCESSABLE_CONTENT",
    message:
      "This Idempotency-Key was already used with a different request body. To change a form, update it with PUT. For " +
      "another booking, send that booking's own key.",
    condition: "See [Idempotency](#idempotency). With `Location`, if the key's form is in scope.",
    retry: "no: `PUT` the change",
  },
  RATE_LIMITED: {
    status: 429,
    trpc: "TOO_MANY_REQUESTS",
    message: "Too many requests. Wait the number of seconds in Retry-After, then retry.",
    condition: "See [Rate limits](#rate-limits). With `Retry-After`.",
    retry: "after `Retry-After`",
  },
  INTERNAL_ERROR: {
    status: 500,
    trpc: "INTERNAL_SERVER_ERROR",
    message: "Internal error. Retry later; if it persists, report the correlationId.",
    condition: "An error in the service",
    retry: "yes",
    also: {
      503:
        "The database is unavailable or slow, the process is shutting down, or too many requests of the key's holder are in " +
        "progress (see [Rate limits](#rate-limits)). With `Retry-After`.",
    },
  },
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof ERRORS;

/** A rejected property, parameter or header, and what is wrong with it. */
export interface FieldError {
  field: string;
  issue: string;
}

interface ServiceErrorOptions {
  /** Public text. Must not contain SQL, messages of libraries or secrets. */
  message?: string;
  /** The rejected fields; for VALIDATION_ERROR only. */
  errors?: FieldError[];
  /** HTTP status, if it differs from the code's default (405, 408, 415, 417, 431, 503). */
  status?: number;
  /** Seconds until a retry makes sense; at least 1. */
  retryAfter?: number;
  /** Path of the resource that the error is about. */
  location?: string;
  /** The internal cause: logged, never sent. */
  cause?: unknown;
}

/**
 * The only error that the core throws: a stable code (`serviceCode`), a public message and an internal `cause`. `name` and
 * `code` are those of tRPC's class.
 */
export class ServiceError extends TRPCError {
  readonly serviceCode: ErrorCode;
  readonly status: number;
  readonly errors: FieldError[] | undefined;
  readonly retryAfter: number | undefined;
  readonly location: string | undefined;

  constructor(serviceCode: ErrorCode, options: ServiceErrorOptions = {}) {
    const known = ERRORS[serviceCode];
    super({ code: known.trpc, message: options.message ?? known.message, cause: options.cause });
    this.serviceCode = serviceCode;
    this.status = options.status ?? known.status;
    this.errors = options.errors;
    this.retryAfter = options.retryAfter === undefined ? undefined : Math.max(1, Math.ceil(options.retryAfter));
    this.location = options.location;
  }
}

/** The same error whether the resource is missing or out of scope. `resource` is what the message names. */
export const notFound = (resource?: "form" | "listing") =>
  new ServiceError(
    "RESOURCE_NOT_FOUND",
    resource && { message: `There is no such ${resource}, or you have no access to it: check its id.` },
  );

/** `Retry-After` of a 503: 1 to 3 seconds at random, so that clients rejected together do not return together. */
export const randomRetryAfter = () => 1 + Math.floor(Math.random() * 3);

/** A 503. */
export const unavailable = (options: Pick<ServiceErrorOptions, "message" | "cause" | "retryAfter">) =>
  new ServiceError("INTERNAL_ERROR", {
    status: 503,
    retryAfter: randomRetryAfter(),
    message: "The service is briefly unavailable.",
    ...options,
  });

/** Returns a VALIDATION_ERROR with one entry per field: the first error of each. */
export function invalid(fieldErrors: FieldError[], options: { status?: number } = {}): ServiceError {
  const seen = new Set<string>();
  const errors = fieldErrors.filter(({ field }) => !seen.has(field) && seen.add(field));
  return new ServiceError("VALIDATION_ERROR", { ...options, errors });
}

export const UNKNOWN_PROPERTY = "is not a known property";

/** Converts the issues of a zod error. */
export function fieldErrorsOf(error: z.core.$ZodError): FieldError[] {
  return error.issues.flatMap((issue): FieldError[] =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => ({ field: [...issue.path, key].join("."), issue: UNKNOWN_PROPERTY }))
      : [
          issue.path.length === 0
            ? { field: "body", issue: "must be an object" }
            : { field: issue.path.join("."), issue: issue.message },
        ],
  );
}

/** Issue text of every schema for a value that is absent or of the wrong type. */
export const expected = (what: string) => (issue: { input?: unknown }) =>
  issue.input === undefined ? "is required" : `must be ${what}`;
