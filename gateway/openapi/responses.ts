import { ERRORS, type ErrorCode } from "../../server/errors.js";
import type { Json } from "./document.js";
import { headerRefs } from "./parts.js";

interface ErrorResponse {
  status: number;
  codes: readonly ErrorCode[];
  /** Where it is not the code's own. */
  message?: string;
  headers: readonly string[];
  /** What an example of `errors` names. */
  fault?: Json;
}

const RATE = ["RateLimit", "RateLimit-Policy"];
const STAY = { field: "checkOutDate", issue: "must be after checkInDate" };

/** Every error response that an operation can give, by its name among the components. */
const RESPONSES: Record<string, ErrorResponse> = {
  InvalidBody: { status: 400, codes: ["VALIDATION_ERROR"], headers: RATE, fault: STAY },
  InvalidQuery: {
    status: 400,
    codes: ["INVALID_CURSOR", "VALIDATION_ERROR"],
    headers: RATE,
    fault: { field: "limit", issue: "must be an integer" },
  },
  Unauthenticated: { status: 401, codes: ["UNAUTHENTICATED"], headers: ["WWW-Authenticate"] },
  Forbidden: { status: 403, codes: ["FORBIDDEN"], headers: RATE },
  NotFound: { status: 404, codes: ["RESOURCE_NOT_FOUND"], headers: RATE },
  PayloadTooLarge: { status: 413, codes: ["PAYLOAD_TOO_LARGE"], headers: RATE },
  UnsupportedMediaType: {
    status: 415,
    codes: ["VALIDATION_ERROR"],
    headers: RATE,
    fault: { field: "Content-Type", issue: "must be application/json, in UTF-8" },
  },
  IdempotencyKeyReused: { status: 422, codes: ["IDEMPOTENCY_KEY_REUSED"], headers: RATE },
  RateLimited: { status: 429, codes: ["RATE_LIMITED"], headers: ["Retry-After", ...RATE] },
  InternalError: { status: 500, codes: ["INTERNAL_ERROR"], headers: RATE },
  Unavailable: {
    status: 503,
    codes: ["INTERNAL_ERROR"],
    message: "The service is briefly unavailable.",
    headers: ["Retry-After"],
  },
};

/** The responses of an operation that can fail with these codes, each a reference to a component. */
export function errorResponses(codes: readonly ErrorCode[], takesBody: boolean): Record<string, Json> {
  const statuses = new Map<number, ErrorCode[]>();
  const add = (status: number, code: ErrorCode) =>
    statuses.set(status, [...(statuses.get(status) ?? []), code]);
  for (const code of codes) add(ERRORS[code].status, code);
  if (takesBody) add(415, "VALIDATION_ERROR");
  add(503, "INTERNAL_ERROR");
  return Object.fromEntries(
    [...statuses].map(([status, of]) => [
      String(status),
      { $ref: `#/components/responses/${nameOf(status, of)}` },
    ]),
  );
}

function nameOf(status: number, codes: readonly ErrorCode[]): string {
  const wanted = [...codes].sort().join();
  for (const [name, response] of Object.entries(RESPONSES)) {
    if (response.status === status && [...response.codes].sort().join() === wanted) return name;
  }
  throw new Error(`No response is described for ${status} with ${wanted}`);
}

/** The components that `errorResponses` refers to. */
export const responseComponents = (): Record<string, Json> =>
  Object.fromEntries(Object.entries(RESPONSES).map(([name, response]) => [name, describe(response)]));

function describe({ codes, message, headers, fault }: ErrorResponse): Json {
  const messageOf = (code: ErrorCode) => message ?? ERRORS[code].message;
  const example = (code: ErrorCode): Json => ({
    code,
    message: messageOf(code),
    correlationId: "0d2f9c1a-4c0e-4d64-9a52-0c5b8d9a8b1f",
    ...(code === "VALIDATION_ERROR" && { errors: [fault] }),
  });
  return {
    description: codes.map((code) => `\`${code}\`: ${messageOf(code)}`).join(" Or "),
    headers: headerRefs(["X-Correlation-Id", ...headers]),
    content: {
      "application/json": {
        schema: { $ref: "#/components/schemas/Error" },
        examples: Object.fromEntries(codes.map((code) => [code, { value: example(code) }])),
      },
    },
  };
}
