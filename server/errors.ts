import { TRPCError } from "@trpc/server";
import type { z } from "zod";

type TrpcCode = ConstructorParameters<typeof TRPCError>[0]["code"];

/**
 * Every error code of the service with its HTTP status and its default message. The gateway, the OpenAPI
 * document and the SDK's error classes all follow this one table.
 */
export const ERRORS = {
  UNAUTHENTICATED: {
    status: 401,
    trpc: "UNAUTHORIZED",
    message: "A valid API key is required: it is missing, malformed, unknown, revoked or expired.",
  },
  FORBIDDEN: {
    status: 403,
    trpc: "FORBIDDEN",
    message: "This key may not perform this operation.",
  },
  RESOURCE_NOT_FOUND: {
    status: 404,
    trpc: "NOT_FOUND",
    message: "The resource does not exist, or you have no access to it.",
  },
  INVALID_CURSOR: {
    status: 400,
    trpc: "BAD_REQUEST",
    message: "The cursor is not one that this list, with this filter, has given out.",
  },
  VALIDATION_ERROR: {
    status: 400,
    trpc: "BAD_REQUEST",
    message: "The request is not valid: see errors.",
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    trpc: "PAYLOAD_TOO_LARGE",
    message: "The request body is too large.",
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 422,
    trpc: "UNPROCESSABLE_CONTENT",
    message: "This Idempotency-Key was already used with a different body.",
  },
  RATE_LIMITED: {
    status: 429,
    trpc: "TOO_MANY_REQUESTS",
    message: "Too many requests: wait as long as Retry-After says.",
  },
  INTERNAL_ERROR: {
    status: 500,
    trpc: "INTERNAL_SERVER_ERROR",
    message: "Something went wrong on our side.",
  },
} as const satisfies Record<string, { status: number; trpc: TrpcCode; message: string }>;

export type ErrorCode = keyof typeof ERRORS;

/** One rejected field of a body, query or header, and what was wrong with it. */
export interface FieldError {
  field: string;
  issue: string;
}

interface ServiceErrorOptions {
  /** Public text; never carries SQL, library wording or secrets. */
  message?: string;
  /** The rejected fields; for VALIDATION_ERROR only. */
  errors?: FieldError[];
  /** HTTP status where it differs from the code's own (405, 415, 503). */
  status?: number;
  /** Seconds after which a retry makes sense; at least 1. */
  retryAfter?: number;
  /** The internal cause: logged, never sent. */
  cause?: unknown;
}

/**
 * The one error that leaves the core: a stable code (`serviceCode`), a public message and, apart from them, the cause.
 * `name` and `code` are those of tRPC's class.
 */
export class ServiceError extends TRPCError {
  readonly serviceCode: ErrorCode;
  readonly status: number;
  readonly errors: FieldError[] | undefined;
  readonly retryAfter: number | undefined;

  constructor(serviceCode: ErrorCode, options: ServiceErrorOptions = {}) {
    const known = ERRORS[serviceCode];
    super({ code: known.trpc, message: options.message ?? known.message, cause: options.cause });
    this.serviceCode = serviceCode;
    this.status = options.status ?? known.status;
    this.errors = options.errors;
    this.retryAfter =
      options.retryAfter === undefined ? undefined : Math.max(1, Math.ceil(options.retryAfter));
  }
}

/** The same error whether the resource is missing or out of scope. `resource` is what the client asked for. */
export const notFound = (resource?: "form" | "listing") =>
  new ServiceError(
    "RESOURCE_NOT_FOUND",
    resource && { message: `There is no such ${resource}, or you have no access to it: check its id.` },
  );

/** VALIDATION_ERROR carrying every fault, one entry a field: of several about one field the first counts. */
export function invalid(faults: FieldError[], options: { status?: number } = {}): ServiceError {
  const seen = new Set<string>();
  const errors = faults.filter(({ field }) => !seen.has(field) && seen.add(field));
  return new ServiceError("VALIDATION_ERROR", { ...options, errors });
}

/** What a schema found wrong, one entry an issue. */
export function faultsOf(error: z.core.$ZodError): FieldError[] {
  return error.issues.flatMap((issue): FieldError[] =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => ({ field: [...issue.path, key].join("."), issue: "is not a known property" }))
      : [
          issue.path.length === 0
            ? { field: "body", issue: "must be an object" }
            : { field: issue.path.join("."), issue: issue.message },
        ],
  );
}

/** The wording every schema uses for a value that is absent or of the wrong type. */
export const expected = (what: string) => (issue: { input?: unknown }) =>
  issue.input === undefined ? "is required" : `must be ${what}`;
