import { describe, expect, test, vi } from "vitest";
import { type Fetch, type FetchInit, GuestFormsError } from "../../sdk/src/index.js";
import { errorEnvelope, resetBeforeProcessing, respondWith } from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = await useGateway();
const sentKeys = () => context.proxy.requests.map(({ headers }) => headers.authorization?.replace("Bearer ", ""));
const UUID = /^[0-9a-f-]{36}$/;

/** A fetch that records its arguments and returns an empty list. */
function recordingFetch() {
  const sent: FetchInit[] = [];
  const fetch: Fetch = async (_url, init) => {
    sent.push({ ...init });
    return Response.json({ items: [] });
  };
  return { fetch, sent };
}

describe("withOptions and a key per call", () => {
  test("another key is used for the derived client, or for the call and all its pages, and nowhere else", async () => {
    const original = context.client();
    await original.withOptions({ apiKey: context.readOnly }).listings.list();
    await original.listings.list({ limit: 2 }, { apiKey: context.readOnly }).toArray();
    await original.listings.list();
    expect(sentKeys()).toEqual([context.readOnly, context.readOnly, context.readOnly, context.readWrite]);
  });

  test("withOptions overrides options and merges headers and fetchOptions, and neither overrides what the SDK sets", async () => {
    const { fetch, sent } = recordingFetch();
    const headers = { "X-App": "one", "X-Team": "blue", Authorization: "Bearer other", Accept: "text/html" };
    const client = context.client({ headers, fetchOptions: { a: 1, b: 1 } });
    const other = client.withOptions({ fetch, headers: { "x-app": "two" }, fetchOptions: { b: 2 } });
    const overriding = JSON.parse('{"dispatcher":"two","redirect":"follow","method":"DELETE","headers":{}}');
    await other.forms.list({}, { fetchOptions: overriding });
    const merged = { "x-app": "two", "x-team": "blue", authorization: `Bearer ${context.readWrite}` };
    const own = { ...merged, accept: "application/json" };
    const set = { redirect: "manual", method: "GET", headers: expect.objectContaining(own) };
    expect(sent).toEqual([expect.objectContaining({ a: 1, b: 2, dispatcher: "two", ...set })]);
  });

  test.each([undefined, "", " ", null])("apiKey: %j is rejected and no other key is used", async (key) => {
    vi.stubEnv("GUEST_FORMS_API_KEY", context.readWrite);
    const options = { apiKey: key } as { apiKey: string };
    expect(() => context.client().withOptions(options)).toThrow(/No API key/);
    for (const call of [
      context.client().forms.retrieve("f1", options),
      context.client().forms.list({}, options),
      context.client().request("GET", "/v1/forms", options),
    ]) {
      expect(await rejection(call)).toMatchObject({ message: expect.stringMatching(/^No API key/) });
    }
    expect(context.proxy.requests).toHaveLength(0);
  });
});

describe("apiKey as a function", () => {
  test("the apiKey function is called before each request, including pages and retries", async () => {
    const given = [context.readOnly, context.readWrite, context.readWrite];
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
    expect(error).toMatchObject({ message: "The apiKey function failed: the vault is sealed", cause });
    expect(apiKey).toHaveBeenCalledTimes(1);
    expect(context.proxy.requests).toHaveLength(0);
  });

  test("the timeout covers an apiKey function that hangs", async () => {
    const client = context.client({ apiKey: () => new Promise<string>(() => {}), timeout: 50 });
    expect(await rejection(client.forms.list())).toMatchObject({ name: "TimeoutError" });
  });
});

describe("results", () => {
  test("every result has its correlation id, which JSON and copies omit", async () => {
    const client = context.client();
    const { data: form, response } = await client.forms.create(context.uniqueStay()).withResponse();
    expect(form._correlationId).toBe(response.headers["x-correlation-id"]);
    const page = await client.listings.list({ limit: 1 });
    const results = [
      form,
      await client.forms.retrieve(form.id),
      await client.listings.retrieve(form.listingId),
      page,
      await page.nextPage(),
      await client.request<{ id: string }>("GET", `/v1/forms/${form.id}`),
    ];
    expect(new Set(results.map((result) => result._correlationId)).size).toBe(results.length);
    for (const result of results) {
      expect(result._correlationId).toMatch(UUID);
      expect(JSON.stringify(result)).not.toContain("orrelationId");
      expect(Object.keys({ ...result })).not.toContain("_correlationId");
    }
    context.proxy.injectNext(respondWith(200, { id: "f1" }));
    expect((await client.forms.retrieve("f1"))._correlationId).toBeUndefined();
  });

  test("every result says whether it is a replay, which JSON and copies omit", async () => {
    const client = context.client();
    const stay = context.uniqueStay();
    const form = await client.forms.create(stay);
    const replays = [
      await client.forms.create(stay),
      await client.forms.create(stay, { idempotencyKey: "a replay" }),
      await client.request<{ id: string }>("POST", "/v1/forms", { body: stay }),
    ];
    const others = [
      form,
      await client.forms.create({ ...stay, externalId: "another booking" }),
      await client.forms.retrieve(form.id),
      await client.forms.update(form.id, stay),
      await client.forms.cancel(form.id),
      await client.listings.retrieve(form.listingId),
      // Its type has no such property.
      Object(await client.listings.list()),
    ];
    expect(replays.map(({ id, _replayed }) => [id, _replayed])).toEqual(replays.map(() => [form.id, true]));
    expect(others.map(({ _replayed }) => _replayed)).toEqual(others.map(() => false));
    for (const result of [...replays, ...others]) {
      expect(JSON.stringify(result)).not.toContain("replayed");
      expect(Object.keys(result)).not.toContain("_replayed");
      expect("_replayed" in { ...result }).toBe(false);
    }
  });

  test("asResponse returns a new platform Response on each call and sends one request", async () => {
    const call = context.client().forms.create(context.uniqueStay());
    const [first, second] = [await call.asResponse(), await call.asResponse()];
    expect(first).toBeInstanceOf(Response);
    expect([first.status, first.headers.get("location")]).toEqual([201, `/v1/forms/${(await call).id}`]);
    expect(await first.json()).toEqual(await call);
    expect(await second.text()).toBe(JSON.stringify(await call));
    expect(context.proxy.requests).toHaveLength(1);
    const list = await context.client().listings.list({ limit: 1 }).asResponse();
    expect(await list.json()).toMatchObject({ items: [{ title: "Alfama" }] });
    context.proxy.injectNext(errorEnvelope(404, "RESOURCE_NOT_FOUND"));
    const failed = rejection(context.client().forms.retrieve("f1").asResponse());
    expect(await failed).toMatchObject({ name: "ResourceNotFoundError" });
  });
});

describe("client.request", () => {
  test("request sends query, body and headers and resolves to the parsed JSON", async () => {
    context.proxy.injectNext(respondWith(200, { note: "x" }), respondWith(200, [1, 2]), respondWith(204, ""));
    const client = context.client();
    const query = { a: "b&c", n: 1, none: undefined };
    const options = { query, body: { at: new Date(0) }, headers: { "x-a": "b" } };
    expect(await client.request<{ note: string }>("PATCH", "/v1/notes/7", options)).toEqual({ note: "x" });
    expect(await client.request<number[]>("GET", "/v1/notes")).toEqual([1, 2]);
    expect(await client.request("DELETE", "/v1/notes/7")).toBeUndefined();
    expect(context.proxy.requests[0]).toMatchObject({
      method: "PATCH",
      path: "/v1/notes/7?a=b%26c&n=1",
      body: '{"at":"1970-01-01T00:00:00.000Z"}',
      headers: { "x-a": "b", "content-type": "application/json" },
    });
  });

  test("request retries with the caller's Idempotency-Key, if any, and rejects with the same error classes", async () => {
    const created = respondWith(201, { id: "n1" });
    const forbidden = errorEnvelope(403, "FORBIDDEN");
    context.proxy.injectNext(resetBeforeProcessing, created, resetBeforeProcessing, created, forbidden);
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
