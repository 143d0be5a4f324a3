import { describe, expect, test, vi } from "vitest";
import { type Fetch, type FetchInit, GuestForms, GuestFormsError } from "../../sdk/src/index.js";
import { errorEnvelope, resetBeforeProcessing, respondWith } from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = useGateway();
const sentKeys = () =>
  context.proxy.requests.map(({ headers }) => headers.authorization?.replace("Bearer ", ""));
const UUID = /^[0-9a-f-]{36}$/;

/** A fetch that records its arguments and returns an empty list. */
function recordingFetch() {
  const sent: { url: string; init: FetchInit }[] = [];
  const fetch: Fetch = async (url, init) => {
    sent.push({ url, init: { ...init } });
    return Response.json({ items: [] });
  };
  return { fetch, sent };
}

describe("withOptions and a key per call", () => {
  test("withOptions returns a client with another key and does not change the original", async () => {
    const original = context.client();
    const derived = original.withOptions({ apiKey: context.readOnly });
    await derived.listings.list();
    await original.listings.list();
    expect(sentKeys()).toEqual([context.readOnly, context.readWrite]);
  });

  test("a key passed to a call is used for that call and all its pages", async () => {
    const client = context.client();
    await client.listings.list({ limit: 2 }, { apiKey: context.readOnly }).toArray();
    await client.listings.list();
    expect(sentKeys()).toEqual([context.readOnly, context.readOnly, context.readWrite]);
  });

  test("withOptions overrides options and merges headers and fetchOptions", async () => {
    const { fetch, sent } = recordingFetch();
    const client = context.client({
      headers: { "X-App": "one", "X-Team": "blue" },
      fetchOptions: { a: 1, b: 1 },
    });
    const other = client.withOptions({
      fetch,
      baseUrl: "https://other.example.com/v1",
      headers: { "x-app": "two" },
      fetchOptions: { b: 2 },
      timeout: undefined,
    });
    await other.forms.list();
    expect(sent.map(({ init }) => init)).toEqual([
      expect.objectContaining({
        a: 1,
        b: 2,
        headers: expect.objectContaining({ "x-app": "two", "x-team": "blue" }),
      }),
    ]);
    expect(context.proxy.requests).toHaveLength(0);
  });

  test.each([undefined, "", " ", null])("apiKey: %j is rejected and no other key is used", async (key) => {
    vi.stubEnv("GUEST_FORMS_API_KEY", context.readWrite);
    const options = { apiKey: key } as { apiKey: string };
    expect(() => context.client().withOptions(options)).toThrow(/No API key/);
    for (const call of [
      () => context.client().forms.retrieve("f1", options),
      () => context.client().forms.list({}, options),
      () => context.client().request("GET", "/v1/forms", options),
    ]) {
      expect(await rejection(call())).toMatchObject({ message: expect.stringMatching(/^No API key/) });
    }
    expect(context.proxy.requests).toHaveLength(0);
  });
});

describe("apiKey as a function", () => {
  test("the apiKey function is called before each request, including pages and retries", async () => {
    const given = [context.readOnly, context.readWrite, context.readWrite, context.readOnly];
    const apiKey = vi.fn(async () => `${given.shift()}\n`);
    const client = context.client({ apiKey });
    expect(apiKey).not.toHaveBeenCalled();
    context.proxy.injectNext(resetBeforeProcessing);
    await client.listings.list({ limit: 2 }).toArray();
    await client.listings.list({}, { apiKey: () => context.readOnly });
    expect(sentKeys()).toEqual([context.readOnly, context.readWrite, context.readWrite, context.readOnly]);
    expect(apiKey).toHaveBeenCalledTimes(3);
  });

  test("a failing apiKey function rejects the call with its error as the cause, and nothing is sent", async () => {
    const cause = new Error("the vault is sealed");
    const apiKey = vi.fn(() => Promise.reject(cause));
    const error = await rejection(context.client({ apiKey }).forms.list());
    expect(error).toBeInstanceOf(GuestFormsError);
    expect(error).toMatchObject({ message: "The apiKey function failed: the vault is sealed" });
    expect((error as Error).cause).toBe(cause);
    expect(apiKey).toHaveBeenCalledTimes(1);
    expect(context.proxy.requests).toHaveLength(0);
  });

  test.each([undefined, "", "two\nlines"])(
    "an apiKey function that returns %j is an error, and nothing is sent",
    async (key) => {
      const error = await rejection(context.client({ apiKey: () => key as string }).forms.list());
      expect(error).toBeInstanceOf(GuestFormsError);
      expect((error as Error).message).toMatch(/API key/);
      expect(context.proxy.requests).toHaveLength(0);
    },
  );

  test("the timeout covers an apiKey function that hangs", async () => {
    const client = context.client({ apiKey: () => new Promise<string>(() => {}), timeout: 50 });
    expect(await rejection(client.forms.list())).toMatchObject({ name: "TimeoutError" });
  });

  test("a key from a function is redacted from errors", async () => {
    context.proxy.injectNext(respondWith(502, `<p>${context.readOnly}</p>`));
    const error = await rejection(
      context.client({ apiKey: () => context.readOnly, maxRetries: 0 }).forms.list(),
    );
    expect((error as Error).message).toMatch(/\(text\/html\): \[redacted\]$/);
  });
});

describe("the correlation id of a response", () => {
  test("every result has its correlation id, which JSON and copies omit", async () => {
    const client = context.client();
    const created = await client.forms.create(context.uniqueStay()).withResponse();
    const form = created.data;
    expect(form._correlationId).toMatch(UUID);
    expect(form._correlationId).toBe(created.response.headers["x-correlation-id"]);
    const again = await client.forms.retrieve(form.id);
    const listing = await client.listings.retrieve(form.listingId);
    const page = await client.listings.list({ limit: 1 });
    const next = await page.nextPage();
    const raw = await client.request<{ id: string }>("GET", `/v1/forms/${form.id}`);
    const results = [form, again, listing, page, next, raw];
    const ids = results.map((result) => result._correlationId);
    expect(ids).toEqual(ids.map(() => expect.stringMatching(UUID)));
    expect(new Set(ids).size).toBe(results.length);
    for (const result of results) {
      expect(JSON.stringify(result)).not.toContain("orrelationId");
      expect(Object.keys({ ...result })).not.toContain("_correlationId");
    }
  });

  test("the correlation id is undefined if a proxy removed the header", async () => {
    context.proxy.injectNext(respondWith(200, { id: "f1" }));
    expect((await context.client().forms.retrieve("f1"))._correlationId).toBeUndefined();
  });
});

describe("asResponse", () => {
  test("asResponse returns a new platform Response on each call and sends one request", async () => {
    const call = context.client().forms.create(context.uniqueStay());
    const [first, second] = [await call.asResponse(), await call.asResponse()];
    expect(first).toBeInstanceOf(Response);
    expect([first.status, first.headers.get("location")]).toEqual([201, `/v1/forms/${(await call).id}`]);
    expect(await first.json()).toEqual(await call);
    expect(await second.text()).toBe(JSON.stringify(await call));
    expect(context.proxy.requests).toHaveLength(1);
  });

  test("asResponse of a list returns the response of its first page", async () => {
    const response = await context.client().listings.list({ limit: 1 }).asResponse();
    expect(await response.json()).toMatchObject({ items: [{ title: "Alfama" }] });
    expect(context.proxy.requests).toHaveLength(1);
  });

  test("asResponse rejects with the errors of the call", async () => {
    context.proxy.injectNext(errorEnvelope(404, "RESOURCE_NOT_FOUND"));
    expect(await rejection(context.client().forms.retrieve("f1").asResponse())).toMatchObject({
      name: "ResourceNotFoundError",
    });
  });
});

describe("client.request", () => {
  test("request sends query, body and headers and resolves to the parsed JSON", async () => {
    context.proxy.injectNext(
      respondWith(200, { note: "x" }),
      respondWith(200, [1, 2]),
      respondWith(200, [3]),
    );
    const client = context.client();
    const options = {
      query: { a: "b&c", n: 1, none: undefined },
      body: { at: new Date(0) },
      headers: { "x-a": "b" },
    };
    const note: { note: string } = await client.request<{ note: string }>("PATCH", "/v1/notes/7", options);
    expect(note).toEqual({ note: "x" });
    expect(await client.request<number[]>("GET", "/v1/notes")).toEqual([1, 2]);
    expect(await client.request("POST", "/v1/notes", { idempotencyKey: "mine" })).toEqual([3]);
    const [patch, get, post] = context.proxy.requests;
    expect(patch).toMatchObject({
      method: "PATCH",
      path: "/v1/notes/7?a=b%26c&n=1",
      body: '{"at":"1970-01-01T00:00:00.000Z"}',
      headers: { "x-a": "b", "content-type": "application/json" },
    });
    expect(patch?.headers).not.toHaveProperty("idempotency-key");
    expect(get?.headers).not.toHaveProperty("idempotency-key");
    expect(post?.headers["idempotency-key"]).toBe("mine");
  });

  test("request resolves to undefined for a 204 and rejects any other empty body", async () => {
    context.proxy.injectNext(respondWith(204, ""), respondWith(200, ""));
    const client = context.client({ maxRetries: 0 });
    const { data, response } = await client.request("DELETE", "/v1/notes/7").withResponse();
    expect([data, response.status]).toEqual([undefined, 204]);
    expect(await rejection(client.request("DELETE", "/v1/notes/7"))).toMatchObject({ name: "ApiError" });
    context.proxy.injectNext(respondWith(204, ""));
    expect((await client.request("DELETE", "/v1/notes/7").asResponse()).status).toBe(204);
  });

  test("request retries with the caller's Idempotency-Key, if any, and rejects with the same error classes", async () => {
    context.proxy.injectNext(
      resetBeforeProcessing,
      respondWith(201, { id: "n1" }),
      resetBeforeProcessing,
      respondWith(201, { id: "n2" }),
      errorEnvelope(403, "FORBIDDEN"),
    );
    const client = context.client();
    await client.request("POST", "/v1/notes", { body: {} });
    await client.request("POST", "/v1/notes", { body: {}, idempotencyKey: "mine" });
    const sent = context.proxy.requests.map(({ headers }) => headers["idempotency-key"]);
    expect(sent).toEqual([undefined, undefined, "mine", "mine"]);
    expect(await rejection(client.request("DELETE", "/v1/notes/7"))).toMatchObject({
      name: "ForbiddenError",
      message: "DELETE /v1/notes/7: 403 It was FORBIDDEN",
    });
  });

  test.each(["v1/forms", "@evil.example.com/", ".evil.example.com/", "", "/v1/forms?a=b", "/v1/forms#a"])(
    "request rejects the path %j and sends nothing",
    async (path) => {
      const { fetch, sent } = recordingFetch();
      expect(await rejection(context.client({ fetch }).request("GET", path))).toBeInstanceOf(GuestFormsError);
      expect(sent).toEqual([]);
    },
  );
});

describe("fetch options", () => {
  test("fetchOptions of a call override the client's, and neither overrides what the SDK sets", async () => {
    const { fetch, sent } = recordingFetch();
    const client = context.client({ fetch, fetchOptions: { dispatcher: "one", keepalive: true } });
    const overriding = JSON.parse('{"dispatcher":"two","redirect":"follow","method":"DELETE","headers":{}}');
    await client.listings.list({}, { fetchOptions: overriding });
    expect(sent.map(({ init }) => init)).toEqual([
      expect.objectContaining({
        dispatcher: "two",
        keepalive: true,
        redirect: "manual",
        method: "GET",
        headers: expect.objectContaining({ authorization: `Bearer ${context.readWrite}` }),
      }),
    ]);
  });
});

test("a base URL works with and without a path, a trailing /v1 and trailing slashes", async () => {
  const { fetch, sent } = recordingFetch();
  for (const [baseUrl, expected] of [
    ["https://forms.example.com/v1", "https://forms.example.com"],
    ["https://forms.example.com/v1/", "https://forms.example.com"],
    ["https://forms.example.com/guests//", "https://forms.example.com/guests"],
    ["https://forms.example.com/guests//v1//", "https://forms.example.com/guests"],
    ["https://v1", "https://v1"],
    ["https://forms.example.com:8443/xv1", "https://forms.example.com:8443/xv1"],
    ["https://forms.example.com/v1/x", "https://forms.example.com/v1/x"],
  ] as const) {
    await new GuestForms({ apiKey: context.readWrite, baseUrl, fetch }).listings.list();
    expect(sent.pop()?.url).toBe(`${expected}/v1/listings`);
  }
});
