import { describe, expect, test, vi } from "vitest";
import manifest from "../../sdk/package.json" with { type: "json" };
import { type FormInput, GuestForms, GuestFormsError, isKnownStatus, VERSION } from "../../sdk/src/index.js";
import { respondWith } from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = useGateway();

describe("calls", () => {
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
    expect(post).not.toHaveProperty("idempotency-key");
    expect(get).not.toHaveProperty("content-type");
    expect(get).not.toHaveProperty("idempotency-key");
    expect(VERSION).toBe(manifest.version);
  });

  test("in a browser, the version is sent as X-Guest-Forms-Client instead of User-Agent", async () => {
    vi.stubGlobal("navigator", { userAgent: "Mozilla/5.0 (X11; Linux x86_64)" });
    await context.client().listings.list();
    const [request] = context.proxy.requests;
    expect(request?.headers["x-guest-forms-client"]).toBe(`guest-forms-sdk/${VERSION}`);
    expect(request?.headers["user-agent"]).not.toContain("guest-forms");
  });

  test("headers of a call override the client's, and neither overrides the key or Accept", async () => {
    const client = context.client({
      headers: { "X-App": "one", "X-Team": "blue", Authorization: "Basic x" },
    });
    await client.listings.list({}, { headers: { "x-app": "two", "X-TEAM": undefined, accept: "text/html" } });
    const { headers } = context.proxy.requests[0] ?? {};
    expect(headers).toMatchObject({
      "x-app": "two",
      authorization: `Bearer ${context.readWrite}`,
      accept: "application/json",
    });
    expect(headers).not.toHaveProperty("x-team");
  });

  test("Dates are sent as ISO strings; strings and unknown properties are sent unchanged", async () => {
    const input = { ...context.uniqueStay(), guestMail: "a@b.c" };
    await rejection(context.client().forms.create(input));
    expect(JSON.parse(context.proxy.requests[0]?.body ?? "")).toEqual({
      ...input,
      checkOutDate: (input.checkOutDate as Date).toISOString(),
    });
  });

  test("ids and query parameters are percent-encoded", async () => {
    await rejection(context.client().forms.retrieve("../listings?x=1#é"));
    await rejection(context.client().forms.list({ listingId: "a&b=c", cursor: "d e+f" }));
    expect(context.proxy.requests.map((request) => request.path)).toEqual([
      "/v1/forms/..%2Flistings%3Fx%3D1%23%C3%A9",
      "/v1/forms?listingId=a%26b%3Dc&cursor=d%20e%2Bf",
    ]);
  });

  test("an empty listingId is sent, so the service rejects it instead of listing everything", async () => {
    await rejection(context.client().forms.list({ listingId: "" }));
    expect(context.proxy.requests[0]?.path).toBe("/v1/forms?listingId=");
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
    ["an empty id", (client) => client.forms.retrieve(""), /requires an id/],
    ["a blank id", (client) => client.listings.retrieve("  "), /requires an id/],
    ['the id ".."', (client) => client.forms.update("..", stay), /requires an id/],
    ["an undefined id", (client) => client.forms.retrieve(undefined as never), /requires an id/],
    ["an invalid check-in", (client) => client.forms.create({ ...stay, checkInDate: bad }), /checkInDate/],
    [
      "an invalid check-out",
      (client) => client.forms.update("f", { ...stay, checkOutDate: bad }),
      /checkOut/,
    ],
    [
      "an empty Idempotency-Key",
      (client) => client.forms.create(stay, { idempotencyKey: "" }),
      /idempotency/,
    ],
    [
      "an Idempotency-Key with a line break",
      (client) => client.forms.create(stay, { idempotencyKey: "a\nb" }),
      /idempotency/,
    ],
    ["a timeout of 0", (client) => client.listings.list({}, { timeout: 0 }), /timeout/],
    ["a timeout of NaN", (client) => client.listings.list({}, { timeout: Number.NaN }), /timeout/],
    ["a fractional maxRetries", (client) => client.listings.list({}, { maxRetries: 1.5 }), /maxRetries/],
    [
      "a header with a line break",
      (client) => client.listings.list({}, { headers: { "x-a": "b\nc" } }),
      /"x-a"/,
    ],
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

  test("the client works without process and if the runtime denies access to its environment", () => {
    const options = { apiKey: "k".repeat(20), baseUrl: "http://127.0.0.1:1" };
    for (const process of [
      undefined,
      Object.defineProperty({}, "env", {
        get: () => {
          throw new Error("denied");
        },
      }),
    ]) {
      vi.stubGlobal("process", process);
      try {
        expect(() => new GuestForms(options)).not.toThrow();
        expect(() => new GuestForms()).toThrow(GuestFormsError);
      } finally {
        // At once: if Vitest reports to its main process meanwhile, it removes `process.nextTick` from the real `process`.
        vi.unstubAllGlobals();
      }
    }
  });

  test.each([
    ["a base URL that is not a URL", { baseUrl: "forms.example.com" }],
    ["a base URL with another scheme", { baseUrl: "ftp://forms.example.com" }],
    ["a base URL with a user", { baseUrl: "https://u:p@forms.example.com" }],
    ["a base URL with a query", { baseUrl: "https://forms.example.com?x" }],
    ["an empty key", { apiKey: " " }],
    ["a key with a line break", { apiKey: "grf_rw_abc\ndef" }],
    ["a negative timeout", { timeout: -1 }],
    ["negative retries", { maxRetries: -1 }],
    ["a header name with a space", { headers: { "x y": "z" } }],
  ])("the constructor rejects %s", (_, options) => {
    expect(() => context.client(options)).toThrow(GuestFormsError);
  });
});
