import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import * as sdk from "../../sdk/src/index.js";
import { ApiError, ConnectionError, GuestFormsError } from "../../sdk/src/index.js";
import {
  CORRELATION_ID,
  errorEnvelope,
  type Fault,
  resetBeforeProcessing,
  respondWith,
  startFaultProxy,
} from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = await useGateway();
const classes = { ...sdk };
const JSON_TYPE = { "content-type": "application/json" };

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
    const message = `GET /v1/forms/f1: ${status} It was ${code}`;
    expect(error).toMatchObject({ name, message, status, code, correlationId: CORRELATION_ID });
    expect(error.headers).toMatchObject({ "x-seen": "yes" });
    expect(error.stack).toMatch(new RegExp(`^${name}: `));
  });

  test.each(["TEAPOT", "constructor", "__proto__"])("the unknown code %s is thrown as ApiError", async (code) => {
    const error = await errorOf(errorEnvelope(418, code));
    expect(error.constructor).toBe(ApiError);
    expect(error).toMatchObject({ status: 418, code, message: `GET /v1/forms/f1: 418 It was ${code}` });
  });

  test("the message names the first three rejected fields and the number of others, and is truncated", async () => {
    const errors = ["a", "b", "c", "d", "e"].map((field) => ({ field, issue: "is required" }));
    const error = await errorOf(errorEnvelope(400, "VALIDATION_ERROR", {}, { errors }));
    const fields = "a: is required; b: is required; c: is required; and 2 more";
    expect(error).toMatchObject({ message: `GET /v1/forms/f1: 400 ${fields}`, errors });
    const long = [{ field: "x".repeat(9_000), issue: "is not known" }, null, { field: 1 }];
    const truncated = await errorOf(errorEnvelope(400, "VALIDATION_ERROR", {}, { errors: long }));
    expect(truncated.message.length).toBeLessThan(600);
    expect(truncated).toMatchObject({ errors: long.slice(0, 1) });
  });

  const NOW = Date.UTC(2031, 4, 6, 7, 8);
  test.each([
    ["5", 5],
    [new Date(NOW + 7_000).toUTCString(), 7],
    [new Date(NOW - 7_000).toUTCString(), undefined],
    ["soon", undefined],
    ["-3", undefined],
    [undefined, undefined],
  ])("Retry-After: %s is read as %s seconds", async (sent, expected) => {
    const headers = { date: new Date(NOW).toUTCString(), ...(sent ? { "retry-after": sent } : {}) };
    expect((await errorOf(errorEnvelope(429, "RATE_LIMITED", headers))).retryAfter).toBe(expected);
  });
});

describe("the formId of an IdempotencyKeyReusedError", () => {
  const ID = "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11";
  const OTHER_ID = "00000000-0000-4000-8000-000000000001";
  const belongsTo = (id: string) =>
    `This Idempotency-Key belongs to form ${id}, created with a different request body.`;
  test.each<[string, string | undefined, string, string | undefined]>([
    ["Location", `/v1/forms/${ID}`, "It was used before.", ID],
    ["Location with a prefix", `/guest-forms/v1/forms/${ID}`, "It was used before.", ID],
    ["an absolute Location", `https://forms.example.com/v1/forms/${ID}`, "It was used before.", ID],
    ["an absolute Location with a prefix", `https://a.test:8443/forms/api/v1/forms/${ID}`, "It was used before.", ID],
    ["Location before the message", `/v1/forms/${ID}`, belongsTo(OTHER_ID), ID],
    ["the message without Location, as of version 1.0", undefined, belongsTo(ID), ID],
    ["the message if Location names no form", "/v1/forms", belongsTo(ID), ID],
    ["neither: undefined", undefined, "This Idempotency-Key was already used.", undefined],
    ["neither of another path: undefined", `/v1/listings/${ID}`, `It was used at listing ${ID}.`, undefined],
  ])("is of %s", async (_, location, message, formId) => {
    const headers: Record<string, string> = location === undefined ? {} : { location };
    const error = await errorOf(errorEnvelope(422, "IDEMPOTENCY_KEY_REUSED", headers, { message }));
    expect(error).toBeInstanceOf(sdk.IdempotencyKeyReusedError);
    expect((error as sdk.IdempotencyKeyReusedError).formId).toBe(formId);
  });

  test("is that of the service, which sends Location", async () => {
    const { forms } = context.client();
    const stay = context.uniqueStay();
    const { id } = await forms.create(stay, { idempotencyKey: "the key of a form" });
    const reused = forms.create({ ...stay, numberOfGuests: 3 }, { idempotencyKey: "the key of a form" });
    expect(await rejection(reused)).toMatchObject({ formId: id, headers: { location: `/v1/forms/${id}` } });
  });
});

describe("responses that do not come from the service", () => {
  test.each([
    ["an HTML error page", respondWith(502, "<h1>Bad gateway</h1>"), "Bad gateway"],
    ["an HTML page with status 200", respondWith(200, "<h1>Please log in</h1>"), "Please log in"],
    ["JSON of another shape", respondWith(500, { error: "boom" }), '{"error":"boom"}'],
    ["JSON that is not an object", respondWith(200, [1, 2]), "[1,2]"],
    ["a resource without its id", respondWith(200, { title: "x" }), '{"title":"x"}'],
    ["broken JSON", respondWith(400, '{"code": "VALID', JSON_TYPE), '{"code": "VALID'],
    ["an empty body", respondWith(200, "", JSON_TYPE), "an empty body"],
  ])("%s is an ApiError without a code that quotes the beginning of the body", async (_, fault, quoted) => {
    const error = await errorOf(fault);
    expect(error.constructor).toBe(ApiError);
    expect(error.code).toBeUndefined();
    expect(error.message).toMatch(/^GET http:\/\/[\d.]+:\d+\/v1\/forms\/f1: \d{3}, not a response of this service \(/);
    expect(error.message.split("): ")[1]).toBe(quoted);
  });

  test("at most 200 characters of a page are quoted, without tags, styles and scripts", async () => {
    const page = `<!doctype html><style>a { b: c }</style><script>d()</script>\n<h1>Bad   gateway</h1>${"<p>é ".repeat(9_000)}`;
    const { message, correlationId } = await errorOf(respondWith(502, page, { "x-correlation-id": "c-1" }));
    expect(message).toMatch(/^GET .*: 502, not a response of this service \(text\/html\): Bad gateway é/);
    expect(message.length).toBeLessThan(310);
    expect(correlationId).toBe("c-1");
    const unclosed = await errorOf(respondWith(502, "<style><".repeat(100_000)));
    expect(unclosed.message.length).toBeLessThan(310);
  });

  test.each([301, 302, 303, 307, 308])("a redirect is an ApiError and is not followed: %d", async (status) => {
    const error = await errorOf(respondWith(status, "", { location: `${context.gateway.url}/v1/forms/f1` }));
    expect(error.constructor).toBe(ApiError);
    expect(error).toMatchObject({ status, message: expect.stringContaining("redirect") });
    expect(context.proxy.requests).toHaveLength(1);
  });

  test("a missing response is a ConnectionError that names the cause and the address", async () => {
    const error = await errorOf(resetBeforeProcessing);
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error).not.toBeInstanceOf(ApiError);
    expect([error.name, error.status, error.headers]).toEqual(["ConnectionError", undefined, {}]);
    const closedProxy = await startFaultProxy(context.gateway);
    await closedProxy.close();
    const failed = rejection(context.client({ baseUrl: closedProxy.url, maxRetries: 0 }).forms.list());
    const message = `GET ${closedProxy.url}/v1/forms: no complete response (ECONNREFUSED)`;
    expect(await failed).toMatchObject({ message });
  });
});

test("an error serializes to JSON with its name and message, and is printed without headers", async () => {
  const limited = await errorOf(errorEnvelope(429, "RATE_LIMITED", { "retry-after": "5" }));
  expect(JSON.parse(JSON.stringify(limited))).toEqual({
    name: "RateLimitedError",
    message: "GET /v1/forms/f1: 429 It was RATE_LIMITED",
    status: 429,
    code: "RATE_LIMITED",
    correlationId: CORRELATION_ID,
    retryAfter: 5,
  });
  expect(inspect(limited)).not.toMatch(/headers|undefined/);
});
