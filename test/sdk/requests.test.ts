import { describe, expect, test, vi } from "vitest";
import manifest from "../../sdk/package.json" with { type: "json" };
import { type FormInput, GuestForms, GuestFormsError, isKnownStatus, VERSION } from "../../sdk/src/index.js";
import { READ_WRITE } from "./fake-service.js";
import { answer } from "./mischief.js";
import { rejection, useWorld } from "./setup.js";

const world = useWorld();
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe("the six operations", () => {
  test("create, update, retrieve and list a form; retrieve and list listings", async () => {
    const client = world.client();
    const stay = world.stay();
    const form = await client.forms.create(stay);
    expect(form).toMatchObject({ status: "SENT", checkInDate: stay.checkInDate, numberOfGuests: 2 });
    const moved = await client.forms.update(form.id, { ...stay, numberOfGuests: 4 });
    expect(moved).toMatchObject({ id: form.id, numberOfGuests: 4 });
    expect(await client.forms.retrieve(form.id)).toEqual(moved);
    expect((await client.forms.list()).items).toEqual(world.service.forms);
    const { items } = await client.listings.list({ limit: 2 });
    expect(items).toEqual(world.service.listings.slice(0, 2));
    expect(await client.listings.retrieve(items[0]?.id ?? "")).toEqual(items[0]);
    expect(world.mischief.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "POST /v1/forms",
      `PUT /v1/forms/${form.id}`,
      `GET /v1/forms/${form.id}`,
      "GET /v1/forms",
      "GET /v1/listings?limit=2",
      `GET /v1/listings/${items[0]?.id}`,
    ]);
  });

  test("a call is sent at once, once, however often it is awaited; a list when it is first asked for", async () => {
    const created = world.client().forms.create(world.stay());
    await expect.poll(() => world.mischief.requests).toHaveLength(1);
    const [first, second] = await Promise.all([created, created, created.withResponse()]);
    expect(first).toBe(second);
    const list = world.client().forms.list();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(world.mischief.requests).toHaveLength(1);
    await list;
    await list;
    expect(world.mischief.requests).toHaveLength(2);
  });

  test("fields the SDK does not know, and statuses, are kept as they come", async () => {
    world.mischief.plan(answer(200, { id: "f1", status: "ARCHIVED", colour: { of: "door" } }));
    const form = await world.client().forms.retrieve("f1");
    expect(form).toEqual({ id: "f1", status: "ARCHIVED", colour: { of: "door" } });
    expect(isKnownStatus(form.status)).toBe(false);
    expect(isKnownStatus("CHECKED_OUT")).toBe(true);
  });

  test("withResponse tells status, headers and whether a create was replayed", async () => {
    const client = world.client();
    const stay = world.stay();
    const first = await client.forms.create(stay).withResponse();
    const second = await client.forms.create(stay).withResponse();
    expect(first).toMatchObject({ replayed: false, response: { status: 201 } });
    expect(first.response.headers.location).toBe(`/v1/forms/${first.data.id}`);
    expect(second).toMatchObject({ replayed: true, data: { id: first.data.id } });
    const page = await client.forms.list({ limit: 1 }).withResponse();
    expect(page.response.status).toBe(200);
    expect(page.data.items).toHaveLength(1);
  });
});

describe("what is sent", () => {
  test("the key, the version, and JSON only where there is a body", async () => {
    await world.client().forms.create(world.stay());
    await world.client().listings.list();
    const [post, get] = world.mischief.requests.map((request) => request.headers);
    expect(post).toMatchObject({
      authorization: `Bearer ${READ_WRITE}`,
      accept: "application/json",
      "content-type": "application/json",
      "user-agent": `guest-forms-sdk/${VERSION}`,
      "idempotency-key": expect.stringMatching(UUID),
    });
    expect(get).not.toHaveProperty("content-type");
    expect(get).not.toHaveProperty("idempotency-key");
    expect(VERSION).toBe(manifest.version);
  });

  test("in a browser a header of our own instead of User-Agent", async () => {
    vi.stubGlobal("navigator", { userAgent: "Mozilla/5.0 (X11; Linux x86_64)" });
    try {
      await world.client().listings.list();
    } finally {
      vi.unstubAllGlobals();
    }
    const [request] = world.mischief.requests;
    expect(request?.headers["x-guest-forms-client"]).toBe(`guest-forms-sdk/${VERSION}`);
    expect(request?.headers["user-agent"]).not.toContain("guest-forms");
  });

  test("own headers, a call's before the client's, but never another key or content type", async () => {
    const client = world.client({ headers: { "X-App": "one", "X-Team": "blue", Authorization: "Basic x" } });
    await client.listings.list({}, { headers: { "x-app": "two", "X-TEAM": undefined, accept: "text/html" } });
    const { headers } = world.mischief.requests[0] ?? {};
    expect(headers).toMatchObject({
      "x-app": "two",
      authorization: `Bearer ${READ_WRITE}`,
      accept: "application/json",
    });
    expect(headers).not.toHaveProperty("x-team");
  });

  test("Dates as ISO strings, strings as they are, and properties the SDK does not know", async () => {
    const input = { ...world.stay(), guestMail: "a@b.c" };
    await rejection(world.client().forms.create(input));
    expect(JSON.parse(world.mischief.requests[0]?.body ?? "")).toEqual({
      ...input,
      checkOutDate: (input.checkOutDate as Date).toISOString(),
    });
  });

  test("ids and parameters are encoded", async () => {
    await rejection(world.client().forms.retrieve("../listings?x=1#é"));
    await rejection(world.client().forms.list({ listingId: "a&b=c", cursor: "d e+f" }));
    expect(world.mischief.requests.map((request) => request.path)).toEqual([
      "/v1/forms/..%2Flistings%3Fx%3D1%23%C3%A9",
      "/v1/forms?listingId=a%26b%3Dc&cursor=d%20e%2Bf",
    ]);
  });

  test("an empty filter is sent for the service to refuse, not dropped into a wider answer", async () => {
    await rejection(world.client().forms.list({ listingId: "" }));
    expect(world.mischief.requests[0]?.path).toBe("/v1/forms?listingId=");
  });

  test("a base URL with a path and slashes at its end", async () => {
    const seen: string[] = [];
    const fetch = async (url: string) => {
      seen.push(url);
      return new Response('{"items":[]}', { headers: { "content-type": "application/json" } });
    };
    await world.client({ baseUrl: "https://api.example.com/guests//", fetch }).listings.list();
    expect(seen).toEqual(["https://api.example.com/guests/v1/listings"]);
  });
});

describe("faults of the call are told before any request", () => {
  const stay: FormInput = {
    listingId: "l1",
    checkInDate: "2030-01-01T14:00:00Z",
    checkOutDate: "2030-01-02T10:00:00Z",
    numberOfGuests: 1,
  };
  const bad = new Date("not a date");

  test.each<[string, (client: GuestForms) => PromiseLike<unknown>, RegExp]>([
    ["an empty id", (client) => client.forms.retrieve(""), /id is needed/],
    ["a blank id", (client) => client.listings.retrieve("  "), /id is needed/],
    ["an id that is a step in the path", (client) => client.forms.update("..", stay), /id is needed/],
    ["an id that is none", (client) => client.forms.retrieve(undefined as never), /id is needed/],
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
      "one with a line break",
      (client) => client.forms.create(stay, { idempotencyKey: "a\nb" }),
      /idempotency/,
    ],
    ["a timeout of nothing", (client) => client.listings.list({}, { timeout: 0 }), /timeout/],
    ["a timeout that is no number", (client) => client.listings.list({}, { timeout: Number.NaN }), /timeout/],
    ["a broken maxRetries", (client) => client.listings.list({}, { maxRetries: 1.5 }), /maxRetries/],
    ["a broken header", (client) => client.listings.list({}, { headers: { "x-a": "b\nc" } }), /"x-a"/],
  ])("%s", async (_, call, message) => {
    const fetch = vi.fn();
    const error = await rejection(call(world.client({ fetch })));
    expect(error).toBeInstanceOf(GuestFormsError);
    expect((error as Error).message).toMatch(message);
    expect(fetch).not.toHaveBeenCalled();
  });
});

describe("the client's own options", () => {
  test("key and address come from the environment where they are not given", async () => {
    vi.stubEnv("GUEST_FORMS_API_KEY", `${READ_WRITE}\n`);
    vi.stubEnv("GUEST_FORMS_BASE_URL", world.mischief.url);
    try {
      expect((await new GuestForms().listings.list()).items).toHaveLength(3);
      vi.stubEnv("GUEST_FORMS_BASE_URL", "");
      expect(() => new GuestForms()).toThrow(/No base URL/);
      vi.stubEnv("GUEST_FORMS_API_KEY", undefined);
      expect(() => new GuestForms()).toThrow(/No API key/);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test("a runtime without process, or one that hides its environment, is no crash", () => {
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
        vi.unstubAllGlobals();
      }
    }
  });

  test.each([
    ["no URL", { baseUrl: "forms.example.com" }],
    ["another scheme", { baseUrl: "ftp://forms.example.com" }],
    ["a user in it", { baseUrl: "https://u:p@forms.example.com" }],
    ["a query in it", { baseUrl: "https://forms.example.com?x" }],
    ["an empty key", { apiKey: " " }],
    ["a key cut in two lines", { apiKey: "grf_rw_abc\ndef" }],
    ["a negative timeout", { timeout: -1 }],
    ["negative retries", { maxRetries: -1 }],
    ["a broken header", { headers: { "x y": "z" } }],
  ])("refuses %s", (_, options) => {
    expect(() => world.client(options)).toThrow(GuestFormsError);
  });

  test("the Idempotency-Key is a UUID also where the page has no randomUUID", async () => {
    vi.stubGlobal("crypto", { getRandomValues: crypto.getRandomValues.bind(crypto) });
    try {
      await world.client().forms.create(world.stay());
    } finally {
      vi.unstubAllGlobals();
    }
    expect(world.mischief.requests[0]?.headers["idempotency-key"]).toMatch(UUID);
  });
});
