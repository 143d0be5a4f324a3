import { describe, expect, test, vi } from "vitest";
import manifest from "../../sdk/package.json" with { type: "json" };
import { type FormInput, GuestForms, GuestFormsError, isKnownStatus, VERSION } from "../../sdk/src/index.js";
import { respondWith } from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = await useGateway();

test("a call is sent immediately and only once; a list is sent when it is first awaited", async () => {
  const created = context.client().forms.create(context.uniqueStay());
  await expect.poll(() => context.proxy.requests).toHaveLength(1);
  const [first, second] = await Promise.all([created, created, created.withResponse()]);
  expect(first).toBe(second);
  const list = context.client().forms.list();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(context.proxy.requests).toHaveLength(1);
  await list;
  await list;
  expect(context.proxy.requests).toHaveLength(2);
});

test("unknown fields and statuses are kept", async () => {
  context.proxy.injectNext(respondWith(200, { id: "f1", status: "ARCHIVED", color: { of: "door" } }));
  const form = await context.client().forms.retrieve("f1");
  expect(form).toEqual({ id: "f1", status: "ARCHIVED", color: { of: "door" } });
  expect(isKnownStatus(form.status)).toBe(false);
  expect(isKnownStatus("CHECKED_OUT")).toBe(true);
});

describe("requests", () => {
  test("a request has the key and the SDK version, and a content type only with a body", async () => {
    await context.client().forms.create(context.uniqueStay());
    await context.client().listings.list();
    const [post, get] = context.proxy.requests.map((request) => request.headers);
    expect(post).toMatchObject({
      authorization: `Bearer ${context.readWrite}`,
      accept: "application/json",
      "content-type": "application/json",
      "user-agent": `guest-forms-sdk/${VERSION}`,
    });
    expect(get).not.toHaveProperty("content-type");
    expect(VERSION).toBe(manifest.version);
  });

  test("Dates are sent as ISO strings; strings and unknown properties are sent unchanged", async () => {
    const input = { ...context.uniqueStay(), guestMail: "a@b.c" };
    await rejection(context.client().forms.create(input));
    const checkOutDate = (input.checkOutDate as Date).toISOString();
    expect(JSON.parse(context.proxy.requests[0]?.body ?? "")).toEqual({ ...input, checkOutDate });
  });

  test("ids and query parameters are percent-encoded, and an empty listingId is sent", async () => {
    await rejection(context.client().forms.retrieve("../listings?x=1#é"));
    await rejection(context.client().forms.list({ listingId: "a&b=c", cursor: "d e+f" }));
    // The service rejects it instead of listing everything.
    await rejection(context.client().forms.list({ listingId: "" }));
    expect(context.proxy.requests.map((request) => request.path)).toEqual([
      "/v1/forms/..%2Flistings%3Fx%3D1%23%C3%A9",
      "/v1/forms?listingId=a%26b%3Dc&cursor=d%20e%2Bf",
      "/v1/forms?listingId=",
    ]);
  });
});

describe("invalid calls", () => {
  const stay: FormInput = {
    listingId: "l1",
    checkInDate: "2030-01-01T14:00:00Z",
    checkOutDate: "2030-01-02T10:00:00Z",
    numberOfGuests: 1,
  };
  const bad = new Date("not a date");

  test.each<[string, (client: GuestForms) => PromiseLike<unknown>, RegExp]>([
    ["an empty id", ({ forms }) => forms.retrieve(""), /requires an id/],
    ['the id ".."', ({ forms }) => forms.update("..", stay), /requires an id/],
    ["an invalid check-in", ({ forms }) => forms.create({ ...stay, checkInDate: bad }), /checkInDate/],
    ["an empty key", ({ forms }) => forms.create(stay, { idempotencyKey: "" }), /idempotency/],
    ["a key with a line break", ({ forms }) => forms.create(stay, { idempotencyKey: "a\nb" }), /idempotency/],
    ["a timeout of 0", ({ listings }) => listings.list({}, { timeout: 0 }), /timeout/],
    ["a fractional maxRetries", ({ listings }) => listings.list({}, { maxRetries: 1.5 }), /maxRetries/],
    ["a line break", ({ listings }) => listings.list({}, { headers: { "x-a": "b\nc" } }), /"x-a"/],
  ])("%s is rejected before any request", async (_, call, message) => {
    const fetch = vi.fn();
    const error = await rejection(call(context.client({ fetch })));
    expect(error).toBeInstanceOf(GuestFormsError);
    expect((error as Error).message).toMatch(message);
    expect(fetch).not.toHaveBeenCalled();
  });
});

describe("client options", () => {
  test("the key and the base URL default to environment variables", async () => {
    vi.stubEnv("GUEST_FORMS_API_KEY", `${context.readWrite}\n`);
    vi.stubEnv("GUEST_FORMS_BASE_URL", context.proxy.url);
    expect((await new GuestForms().listings.list()).items).toHaveLength(3);
    vi.stubEnv("GUEST_FORMS_BASE_URL", "");
    expect(() => new GuestForms()).toThrow(/No base URL/);
    vi.stubEnv("GUEST_FORMS_API_KEY", undefined);
    expect(() => new GuestForms()).toThrow(/No API key/);
  });

  test.each([
    ["a base URL that is not a URL", { baseUrl: "forms.example.com" }],
    ["a base URL with a user", { baseUrl: "https://u:p@forms.example.com" }],
    ["an empty key", { apiKey: " " }],
    ["a key with a line break", { apiKey: "grf_rw_abc\ndef" }],
    ["a negative timeout", { timeout: -1 }],
    ["negative retries", { maxRetries: -1 }],
    ["no concurrent calls", { maxConcurrency: 0 }],
    ["a concurrency that is no number", { maxConcurrency: Number.NaN }],
    ["a header name with a space", { headers: { "x y": "z" } }],
  ])("the constructor rejects %s", (_, options) => {
    expect(() => context.client(options)).toThrow(GuestFormsError);
  });

  test.each([
    ["https://forms.example.com/v1", "https://forms.example.com"],
    ["https://forms.example.com/guests//v1//", "https://forms.example.com/guests"],
    ["https://forms.example.com:8443/xv1", "https://forms.example.com:8443/xv1"],
  ])("the base URL %s is %s", async (baseUrl, expected) => {
    const fetch = vi.fn(async (_url: string) => Response.json({ items: [] }));
    await context.client({ baseUrl, fetch }).listings.list();
    expect(fetch.mock.calls[0]?.[0]).toBe(`${expected}/v1/listings`);
  });
});
