import { describe, expect, test } from "vitest";
import * as sdk from "../../sdk/src/index.js";
import { ApiError, ConnectionError, GuestFormsError, ValidationError } from "../../sdk/src/index.js";
import { READ_ONLY } from "./fake-service.js";
import { answer, CORRELATION_ID, envelope, resetBefore, startMischief } from "./mischief.js";
import { rejection, useWorld } from "./setup.js";

const world = useWorld();
const classes = { ...sdk };

/** The error of a call that meets one fault. */
async function errorOf(fault: ReturnType<typeof answer>): Promise<ApiError> {
  world.mischief.plan(fault);
  const error = await rejection(world.client({ maxRetries: 0 }).forms.retrieve("f1"));
  expect(error).toBeInstanceOf(GuestFormsError);
  return error as ApiError;
}

describe("one class a code", () => {
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
  ] as const)("%i %s is %s", async (status, code, name) => {
    const error = await errorOf(envelope(status, code, { "x-seen": "yes" }));
    expect(error).toBeInstanceOf(classes[name]);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({
      name,
      message: `It was ${code}`,
      status,
      code,
      correlationId: CORRELATION_ID,
      headers: { "x-seen": "yes" },
    });
    expect(error.stack).toMatch(new RegExp(`^${name}: `));
  });

  test.each(["TEAPOT", "constructor", "__proto__"])(
    "a code not known yet is an ApiError: %s",
    async (code) => {
      const error = await errorOf(envelope(418, code));
      expect(error.constructor).toBe(ApiError);
      expect(error).toMatchObject({ status: 418, code, message: `It was ${code}` });
    },
  );

  test("ValidationError names every field", async () => {
    const error = await rejection(world.client().forms.create({ ...world.stay(), guestMail: "x" } as never));
    expect(error).toBeInstanceOf(ValidationError);
    expect((error as ValidationError).errors).toEqual([{ field: "guestMail", issue: "unknown property" }]);
  });

  test("Retry-After is told in seconds, also where it is a date", async () => {
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
    for (const [sent, told] of cases) {
      const headers = { date: date.toUTCString(), ...(sent ? { "retry-after": sent } : {}) };
      expect((await errorOf(envelope(429, "RATE_LIMITED", headers))).retryAfter, sent).toBe(told);
    }
  });

  test("the service's refusals arrive as their classes", async () => {
    const client = world.client();
    const stay = world.stay();
    await client.forms.create(stay, { idempotencyKey: "one" });
    const reused = client.forms.create({ ...stay, numberOfGuests: 3 }, { idempotencyKey: "one" });
    expect(await rejection(reused)).toBeInstanceOf(sdk.IdempotencyKeyReusedError);
    expect(await rejection(client.forms.list({ cursor: "x" }))).toBeInstanceOf(sdk.InvalidCursorError);
    const reader = world.client({ apiKey: READ_ONLY });
    expect(await rejection(reader.forms.create(stay))).toBeInstanceOf(sdk.ForbiddenError);
    const large = { ...stay, guestEmail: "x".repeat(20_000) };
    expect(await rejection(client.forms.create(large))).toBeInstanceOf(sdk.PayloadTooLargeError);
  });
});

describe("answers that are not the service's", () => {
  test.each([
    ["an HTML error page", answer(502, "<h1>Bad gateway</h1>")],
    ["an HTML page with status 200", answer(200, "<h1>Please log in</h1>")],
    ["JSON of another kind", answer(500, { error: "boom" })],
    ["JSON that is no object", answer(200, [1, 2])],
    ["a resource without its id", answer(200, { title: "x" })],
    ["broken JSON", answer(400, '{"code": "VALID', { "content-type": "application/json" })],
    ["nothing at all", answer(200, "", { "content-type": "application/json" })],
  ])("%s is an ApiError without a code, which quotes nothing of it", async (_, fault) => {
    const error = await errorOf(fault);
    expect(error.constructor).toBe(ApiError);
    expect(error.code).toBeUndefined();
    expect(error.message).toMatch(/^GET \/v1\/forms\/f1: \d{3}, not an answer of this service/);
    expect(error.message).not.toMatch(/gateway|log in|boom/);
  });

  test("a page without items is an ApiError", async () => {
    world.mischief.plan(answer(200, { data: [] }));
    expect(await rejection(world.client().forms.list())).toBeInstanceOf(ApiError);
  });

  test("the correlation id is the header's where no envelope came", async () => {
    expect((await errorOf(answer(502, "<p>", { "x-correlation-id": "c-1" }))).correlationId).toBe("c-1");
  });

  test("a redirect is an error, and not followed: the key would go with it", async () => {
    const before = world.mischief.requests.length;
    for (const status of [301, 302, 303, 307, 308]) {
      const error = await errorOf(answer(status, "", { location: `${world.service.url}/v1/forms/f1` }));
      expect(error.constructor).toBe(ApiError);
      expect(error).toMatchObject({ status, message: expect.stringContaining("redirect") });
    }
    expect(world.mischief.requests).toHaveLength(before + 5);
  });

  test("no answer is a ConnectionError that says why", async () => {
    const error = await errorOf(resetBefore);
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error).not.toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: undefined, code: undefined, headers: {}, name: "ConnectionError" });
    const gone = await startMischief(world.service.url);
    await gone.close();
    const refused = await rejection(world.client({ baseUrl: gone.url, maxRetries: 0 }).forms.list());
    expect((refused as Error).message).toBe("GET /v1/forms: no whole answer (ECONNREFUSED)");
  });
});
