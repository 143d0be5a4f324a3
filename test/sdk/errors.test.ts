import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import * as sdk from "../../sdk/src/index.js";
import { ApiError, ConnectionError, GuestFormsError, type ValidationError } from "../../sdk/src/index.js";
import {
  CORRELATION_ID,
  errorEnvelope,
  type Fault,
  resetBeforeProcessing,
  respondWith,
  startFaultProxy,
} from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = useGateway();
const classes = { ...sdk };

/** Returns the error of a call whose only attempt hits the fault. */
async function errorOf(fault: Fault): Promise<ApiError> {
  context.proxy.injectNext(fault);
  const error = await rejection(context.client({ maxRetries: 0 }).forms.retrieve("f1"));
  expect(error).toBeInstanceOf(GuestFormsError);
  return error as ApiError;
}

describe("error classes", () => {
  test.each([
    [401, "UNAUTHENTICATED", "UnauthenticatedError"],
    [403, "FORBIDDEN", "ForbiddenError"],
    [404, "RESOURCE_NOT_FOUND", "ResourceNotFoundError"],
    [400, "INVALID_CURSOR", "InvalidCursorError"],
    [400, "VALIDATION_ERROR", "ValidationError"],
    [413, "PAYLOAD_TOO_LARGE", "PayloadTooLargeError"],
    [429, "RATE_LIMITED", "RateLimitedError"],
    [422, "IDEMPOTENCY_KEY_REUSED", "IdempotencyKeyReusedError"],
    [500, "INTERNAL_ERROR", "InternalError"],
    [503, "INTERNAL_ERROR", "InternalError"],
  ] as const)("status %i with code %s is thrown as %s", async (status, code, name) => {
    const error = await errorOf(errorEnvelope(status, code, { "x-seen": "yes" }));
    expect(error).toBeInstanceOf(classes[name]);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({
      name,
      message: `GET /v1/forms/f1: ${status} It was ${code}`,
      status,
      code,
      correlationId: CORRELATION_ID,
    });
    expect(error.headers).toMatchObject({ "x-seen": "yes" });
    expect(error.stack).toMatch(new RegExp(`^${name}: `));
  });

  test.each(["TEAPOT", "constructor", "__proto__"])(
    "the unknown code %s is thrown as ApiError",
    async (code) => {
      const error = await errorOf(errorEnvelope(418, code));
      expect(error.constructor).toBe(ApiError);
      expect(error).toMatchObject({ status: 418, code, message: `GET /v1/forms/f1: 418 It was ${code}` });
    },
  );

  test("the message names the first three rejected fields and the number of others", async () => {
    const errors = ["a", "b", "c", "d", "e"].map((field) => ({ field, issue: "is required" }));
    const error = await errorOf(errorEnvelope(400, "VALIDATION_ERROR", {}, { errors }));
    expect(error.message).toBe(
      "GET /v1/forms/f1: 400 a: is required; b: is required; c: is required; and 2 more",
    );
    expect((error as ValidationError).errors).toEqual(errors);
  });

  test("the message is truncated, and malformed entries of errors are dropped", async () => {
    const errors = [{ field: "x".repeat(9_000), issue: "is not known" }, null, { field: 1 }, "a"];
    const error = await errorOf(errorEnvelope(400, "VALIDATION_ERROR", {}, { errors }));
    expect(error.message.length).toBeLessThan(600);
    expect((error as ValidationError).errors).toEqual(errors.slice(0, 1));
  });

  test("retryAfter is in seconds, even if Retry-After is a date", async () => {
    const date = new Date("2031-05-06T07:08:00Z");
    const later = new Date(date.getTime() + 7_000).toUTCString();
    const cases: [string | undefined, number | undefined][] = [
      ["5", 5],
      [later, 7],
      [new Date(date.getTime() - 7_000).toUTCString(), undefined],
      ["soon", undefined],
      ["-3", undefined],
      [undefined, undefined],
    ];
    for (const [sent, expected] of cases) {
      const headers = { date: date.toUTCString(), ...(sent ? { "retry-after": sent } : {}) };
      expect((await errorOf(errorEnvelope(429, "RATE_LIMITED", headers))).retryAfter, sent).toBe(expected);
    }
  });
});

describe("responses that do not come from the service", () => {
  test.each([
    ["an HTML error page", respondWith(502, "<h1>Bad gateway</h1>"), "Bad gateway"],
    ["an HTML page with status 200", respondWith(200, "<h1>Please log in</h1>"), "Please log in"],
    ["JSON of another shape", respondWith(500, { error: "boom" }), '{"error":"boom"}'],
    ["JSON that is not an object", respondWith(200, [1, 2]), "[1,2]"],
    ["a resource without its id", respondWith(200, { title: "x" }), '{"title":"x"}'],
    [
      "broken JSON",
      respondWith(400, '{"code": "VALID', { "content-type": "application/json" }),
      '{"code": "VALID',
    ],
    ["an empty body", respondWith(200, "", { "content-type": "application/json" }), "an empty body"],
  ])("%s is an ApiError without a code that quotes the beginning of the body", async (_, fault, quoted) => {
    const error = await errorOf(fault);
    expect(error.constructor).toBe(ApiError);
    expect(error.code).toBeUndefined();
    expect(error.message).toMatch(/^GET \/v1\/forms\/f1: \d{3}, not a response of this service \(/);
    expect(error.message.split("): ")[1]).toBe(quoted);
  });

  test("at most 200 characters of a page are quoted, without tags, styles and scripts", async () => {
    const page = `<!doctype html><style>a { b: c }</style><script>d()</script>\n<h1>Bad   gateway</h1>${"<p>é ".repeat(9_000)}`;
    const { message } = await errorOf(respondWith(502, page));
    expect(message).toMatch(
      /^GET \/v1\/forms\/f1: 502, not a response of this service \(text\/html\): Bad gateway é/,
    );
    expect(message.length).toBeLessThan(280);
  });

  test("a page of unclosed tags is truncated too", async () => {
    const { message } = await errorOf(respondWith(502, "<style><".repeat(100_000)));
    expect(message.length).toBeLessThan(280);
  });

  test("a list page without items is an ApiError", async () => {
    context.proxy.injectNext(respondWith(200, { data: [] }));
    expect(await rejection(context.client().forms.list())).toBeInstanceOf(ApiError);
  });

  test("without an error envelope, the correlation id comes from the header", async () => {
    expect((await errorOf(respondWith(502, "<p>", { "x-correlation-id": "c-1" }))).correlationId).toBe("c-1");
  });

  test("a redirect is an ApiError and is not followed", async () => {
    const before = context.proxy.requests.length;
    for (const status of [301, 302, 303, 307, 308]) {
      const error = await errorOf(
        respondWith(status, "", { location: `${context.gateway.url}/v1/forms/f1` }),
      );
      expect(error.constructor).toBe(ApiError);
      expect(error).toMatchObject({ status, message: expect.stringContaining("redirect") });
    }
    expect(context.proxy.requests).toHaveLength(before + 5);
  });

  test("a missing response is a ConnectionError that names the cause", async () => {
    const error = await errorOf(resetBeforeProcessing);
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error).not.toBeInstanceOf(ApiError);
    expect([error.name, error.status, error.code, error.headers]).toEqual([
      "ConnectionError",
      undefined,
      undefined,
      {},
    ]);
    const closedProxy = await startFaultProxy(context.gateway.url);
    await closedProxy.close();
    const failure = await rejection(context.client({ baseUrl: closedProxy.url, maxRetries: 0 }).forms.list());
    expect((failure as Error).message).toBe("GET /v1/forms: no complete response (ECONNREFUSED)");
  });
});

describe("an error in a log", () => {
  test("console output of an error has no headers and no undefined fields", async () => {
    const refused = await errorOf(
      errorEnvelope(400, "VALIDATION_ERROR", { "x-seen": "yes" }, { errors: [{ field: "a", issue: "b" }] }),
    );
    expect(inspect({ ...refused })).toBe(
      inspect({
        status: 400,
        code: "VALIDATION_ERROR",
        correlationId: CORRELATION_ID,
        errors: [{ field: "a", issue: "b" }],
      }),
    );
    expect(inspect(refused)).not.toMatch(/headers|x-seen|undefined/);
    expect(inspect(await errorOf(resetBeforeProcessing))).not.toMatch(/headers|undefined/);
    expect(inspect(await rejection(context.client().forms.retrieve("")))).not.toMatch(/ \{\n|undefined/);
  });

  test("an error serializes to JSON with its name and message", async () => {
    const limited = await errorOf(errorEnvelope(429, "RATE_LIMITED", { "retry-after": "5" }));
    expect(JSON.parse(JSON.stringify(limited))).toEqual({
      name: "RateLimitedError",
      message: "GET /v1/forms/f1: 429 It was RATE_LIMITED",
      status: 429,
      code: "RATE_LIMITED",
      correlationId: CORRELATION_ID,
      retryAfter: 5,
    });
    expect(JSON.parse(JSON.stringify(await errorOf(resetBeforeProcessing)))).toEqual({
      name: "ConnectionError",
      message: "GET /v1/forms/f1: no complete response (ECONNRESET)",
    });
  });
});
