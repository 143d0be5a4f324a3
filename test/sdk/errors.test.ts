import { inspect } from "node:util";
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
      message: `GET /v1/forms/f1: ${status} It was ${code}`,
      status,
      code,
      correlationId: CORRELATION_ID,
    });
    expect(error.headers).toMatchObject({ "x-seen": "yes" });
    expect(error.stack).toMatch(new RegExp(`^${name}: `));
  });

  test.each(["TEAPOT", "constructor", "__proto__"])(
    "a code not known yet is an ApiError: %s",
    async (code) => {
      const error = await errorOf(envelope(418, code));
      expect(error.constructor).toBe(ApiError);
      expect(error).toMatchObject({ status: 418, code, message: `GET /v1/forms/f1: 418 It was ${code}` });
    },
  );

  test("ValidationError names every field", async () => {
    const error = await rejection(world.client().forms.create({ ...world.stay(), guestMail: "x" } as never));
    expect(error).toBeInstanceOf(ValidationError);
    expect((error as ValidationError).errors).toEqual([{ field: "guestMail", issue: "unknown property" }]);
    expect((error as Error).message).toBe("POST /v1/forms: 400 guestMail: unknown property");
  });

  test("the message names the first three rejected fields, and how many more there are", async () => {
    const errors = ["a", "b", "c", "d", "e"].map((field) => ({ field, issue: "is required" }));
    const error = await errorOf(envelope(400, "VALIDATION_ERROR", {}, { errors }));
    expect(error.message).toBe(
      "GET /v1/forms/f1: 400 a: is required; b: is required; c: is required; and 2 more",
    );
    expect((error as ValidationError).errors).toEqual(errors);
  });

  test("the message stays short, and entries of another shape are left out", async () => {
    const errors = [{ field: "x".repeat(9_000), issue: "is not known" }, null, { field: 1 }, "a"];
    const error = await errorOf(envelope(400, "VALIDATION_ERROR", {}, { errors }));
    expect(error.message.length).toBeLessThan(600);
    expect((error as ValidationError).errors).toEqual(errors.slice(0, 1));
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
    ["an HTML error page", answer(502, "<h1>Bad gateway</h1>"), "Bad gateway"],
    ["an HTML page with status 200", answer(200, "<h1>Please log in</h1>"), "Please log in"],
    ["JSON of another kind", answer(500, { error: "boom" }), '{"error":"boom"}'],
    ["JSON that is no object", answer(200, [1, 2]), "[1,2]"],
    ["a resource without its id", answer(200, { title: "x" }), '{"title":"x"}'],
    [
      "broken JSON",
      answer(400, '{"code": "VALID', { "content-type": "application/json" }),
      '{"code": "VALID',
    ],
    ["nothing at all", answer(200, "", { "content-type": "application/json" }), "an empty body"],
  ])("%s is an ApiError without a code, which quotes the beginning of it", async (_, fault, quoted) => {
    const error = await errorOf(fault);
    expect(error.constructor).toBe(ApiError);
    expect(error.code).toBeUndefined();
    expect(error.message).toMatch(/^GET \/v1\/forms\/f1: \d{3}, not a response of this service \(/);
    expect(error.message.split("): ")[1]).toBe(quoted);
  });

  test("at most 200 characters of a page's text are quoted, without its tags, styles and scripts", async () => {
    const page = `<!doctype html><style>a { b: c }</style><script>d()</script>\n<h1>Bad   gateway</h1>${"<p>é ".repeat(9_000)}`;
    const { message } = await errorOf(answer(502, page));
    expect(message).toMatch(
      /^GET \/v1\/forms\/f1: 502, not a response of this service \(text\/html\): Bad gateway é/,
    );
    expect(message.length).toBeLessThan(280);
  });

  test("a page made of opening brackets alone is quoted no longer", async () => {
    const { message } = await errorOf(answer(502, "<style><".repeat(100_000)));
    expect(message.length).toBeLessThan(280);
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
    expect([error.name, error.status, error.code, error.headers]).toEqual([
      "ConnectionError",
      undefined,
      undefined,
      {},
    ]);
    const gone = await startMischief(world.service.url);
    await gone.close();
    const refused = await rejection(world.client({ baseUrl: gone.url, maxRetries: 0 }).forms.list());
    expect((refused as Error).message).toBe("GET /v1/forms: no complete response (ECONNREFUSED)");
  });
});

describe("an error in a log", () => {
  test("prints what is known and nothing else: no headers, no undefined fields", async () => {
    const refused = await errorOf(
      envelope(400, "VALIDATION_ERROR", { "x-seen": "yes" }, { errors: [{ field: "a", issue: "b" }] }),
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
    expect(inspect(await errorOf(resetBefore))).not.toMatch(/headers|undefined/);
    expect(inspect(await rejection(world.client().forms.retrieve("")))).not.toMatch(/ \{\n|undefined/);
  });

  test("becomes JSON with its name and message", async () => {
    const limited = await errorOf(envelope(429, "RATE_LIMITED", { "retry-after": "5" }));
    expect(JSON.parse(JSON.stringify(limited))).toEqual({
      name: "RateLimitedError",
      message: "GET /v1/forms/f1: 429 It was RATE_LIMITED",
      status: 429,
      code: "RATE_LIMITED",
      correlationId: CORRELATION_ID,
      retryAfter: 5,
    });
    expect(JSON.parse(JSON.stringify(await errorOf(resetBefore)))).toEqual({
      name: "ConnectionError",
      message: "GET /v1/forms/f1: no complete response (ECONNRESET)",
    });
  });

  test("keeps the headers within reach", async () => {
    const { headers } = await errorOf(envelope(500, "INTERNAL_ERROR", { "x-seen": "yes" }));
    expect(headers["x-seen"]).toBe("yes");
  });
});
