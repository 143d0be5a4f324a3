import { expect } from "vitest";
import { ERRORS, type ErrorCode, type FieldError } from "../../server/errors.js";
import { UUID } from "./public-fields.js";
import type { HttpResponse } from "./response.js";
import { validateResponse } from "./validate-response.js";

const V1_PATH = /^\/v1(?![\w-])/;

/** Throws if a guarantee that holds for every response of the public port is broken. */
export function checkResponse(response: HttpResponse, method: string, path: string): void {
  if (V1_PATH.test(path)) {
    validateResponse(method, path, response.status, response.headers, response.json);
  }
  const { headers, status } = response;
  const id = headers["x-correlation-id"] ?? "";
  expect(id, "X-Correlation-Id").toMatch(UUID);
  expect(headers["x-powered-by"]).toBeUndefined();
  if (V1_PATH.test(path) || (status >= 400 && path !== "/readyz")) {
    expect(headers["cache-control"], "Cache-Control").toBe("no-store");
    expect(headers.etag, "ETag").toBeUndefined();
  }
  if (status === 204 || method === "HEAD") expect(response.text).toBe("");
  if (status !== 204) {
    expect(headers["content-type"]).toBe("application/json; charset=utf-8");
    if (method !== "HEAD") expect(headers["content-length"]).toBe(String(Buffer.byteLength(response.text)));
  }
  if (status >= 400) checkErrorResponse(response, method, path, id);
}

const STATUSES: Record<ErrorCode, number[]> = {
  UNAUTHENTICATED: [401],
  FORBIDDEN: [403],
  RESOURCE_NOT_FOUND: [404, 405],
  INVALID_CURSOR: [400],
  VALIDATION_ERROR: [400, 408, 415, 417, 431],
  PAYLOAD_TOO_LARGE: [413],
  IDEMPOTENCY_KEY_REUSED: [422],
  RATE_LIMITED: [429],
  INTERNAL_ERROR: [500, 503],
};

/** Texts of libraries and internals, which no client may see. */
const INTERNAL_WORDING =
  /\bzod|prisma|trpc|express|\bpg\b|postgres|graphile|node_modules|\bselect\b|\binsert\b|\bsql\b|ECONN|HPE_|invalid input|expected .*received|unexpected token|cannot read|undefined|\.[jt]s\b|\n|\s+at .*:\d/i;

function checkErrorResponse(response: HttpResponse, method: string, path: string, id: string): void {
  const { headers, status, json } = response;
  if (status === 401) expect(headers["www-authenticate"]).toBe("Bearer");
  if (status === 405) expect(headers.allow).toMatch(/^[A-Z]+(, [A-Z]+)*$/);
  if (status === 429 || status === 503) expect(headers["retry-after"]).toMatch(/^[1-9]\d*$/);
  if (method === "HEAD" || path === "/readyz") return;
  const { code, message, correlationId, errors, ...others } = json as {
    code: ErrorCode;
    message: string;
    correlationId: string;
    errors?: FieldError[];
  };
  expect(others).toEqual({});
  expect(correlationId).toBe(id);
  expect(Object.keys(ERRORS)).toContain(code);
  expect(STATUSES[code]).toContain(status);
  expect(message).toMatch(/\S/);
  expect(message).not.toMatch(INTERNAL_WORDING);
  expect(errors !== undefined).toBe(code === "VALIDATION_ERROR");
  if (!errors) return;
  expect(errors.length).toBeGreaterThan(0);
  expect(new Set(errors.map(({ field }) => field)).size, "one entry per field").toBe(errors.length);
  for (const error of errors) {
    expect(Object.keys(error).sort()).toEqual(["field", "issue"]);
    expect(typeof error.field).toBe("string");
    expect(error.issue).toMatch(/\S/);
    expect(error.issue).not.toMatch(INTERNAL_WORDING);
  }
}
