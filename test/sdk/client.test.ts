import { describe, expect, test, vi } from "vitest";
import { type Fetch, type FetchInit, GuestForms, GuestFormsError, type Logger } from "../../sdk/src/index.js";
import { READ_ONLY, READ_WRITE } from "./fake-service.js";
import { answer, CORRELATION_ID, envelope, resetBefore } from "./mischief.js";
import { rejection, useWorld } from "./setup.js";

const world = useWorld();
const keys = () =>
  world.mischief.requests.map(({ headers }) => headers.authorization?.replace("Bearer ", ""));
const UUID = /^[0-9a-f-]{36}$/;

/** A fetch that is never asked, and the calls it got. */
const noFetch = () => vi.fn<Fetch>(() => Promise.reject(new Error("not to be called")));

describe("many hosts, one program", () => {
  test("withOptions makes a client with another key, and leaves this one as it is", async () => {
    const mine = world.client();
    const theirs = mine.withOptions({ apiKey: READ_ONLY });
    await theirs.listings.list();
    await mine.listings.list();
    expect(keys()).toEqual([READ_ONLY, READ_WRITE]);
  });

  test("a call may have a key of its own, its further pages too", async () => {
    const client = world.client();
    await client.listings.list({ limit: 2 }, { apiKey: READ_ONLY }).toArray();
    await client.listings.list();
    expect(keys()).toEqual([READ_ONLY, READ_ONLY, READ_WRITE]);
  });

  test("withOptions replaces options, and adds headers and fetch options to those there are", async () => {
    const inits: FetchInit[] = [];
    const fetch: Fetch = async (_, init) => {
      inits.push(init);
      return Response.json({ items: [] });
    };
    const client = world.client({
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
    expect(inits).toEqual([
      expect.objectContaining({
        a: 1,
        b: 2,
        headers: expect.objectContaining({ "x-app": "two", "x-team": "blue" }),
      }),
    ]);
    expect(world.mischief.requests).toHaveLength(0);
  });

  test.each([undefined, "", " ", null])(
    "a key that is given as %j is refused, and no other key is used",
    async (key) => {
      vi.stubEnv("GUEST_FORMS_API_KEY", READ_WRITE);
      try {
        const options = { apiKey: key } as { apiKey: string };
        expect(() => world.client().withOptions(options)).toThrow(/No API key/);
        for (const call of [
          () => world.client().forms.retrieve("f1", options),
          () => world.client().forms.list({}, options),
          () => world.client().request("GET", "/v1/forms", options),
        ]) {
          expect(await rejection(call())).toMatchObject({ message: expect.stringMatching(/^No API key/) });
        }
      } finally {
        vi.unstubAllEnvs();
      }
      expect(world.mischief.requests).toHaveLength(0);
    },
  );
});

describe("a key from a function", () => {
  test("is asked for before each request: calls, pages and retries", async () => {
    const given = [READ_ONLY, READ_WRITE, READ_WRITE, READ_ONLY];
    const apiKey = vi.fn(async () => `${given.shift()}\n`);
    const client = world.client({ apiKey });
    expect(apiKey).not.toHaveBeenCalled();
    world.mischief.plan(resetBefore);
    await client.listings.list({ limit: 2 }).toArray();
    await client.listings.list({}, { apiKey: () => READ_ONLY });
    expect(keys()).toEqual([READ_ONLY, READ_WRITE, READ_WRITE, READ_ONLY]);
    expect(apiKey).toHaveBeenCalledTimes(3);
  });

  test("that fails ends the call with its error as the cause, and nothing is sent", async () => {
    const cause = new Error("the vault is sealed");
    const apiKey = vi.fn(() => Promise.reject(cause));
    const error = await rejection(world.client({ apiKey }).forms.list());
    expect(error).toBeInstanceOf(GuestFormsError);
    expect(error).toMatchObject({ message: "The apiKey function failed: the vault is sealed" });
    expect((error as Error).cause).toBe(cause);
    expect(apiKey).toHaveBeenCalledTimes(1);
    expect(world.mischief.requests).toHaveLength(0);
  });

  test.each([undefined, "", "two\nlines"])("that gives %j is an error, and nothing is sent", async (key) => {
    const error = await rejection(world.client({ apiKey: () => key as string }).forms.list());
    expect(error).toBeInstanceOf(GuestFormsError);
    expect((error as Error).message).toMatch(/API key/);
    expect(world.mischief.requests).toHaveLength(0);
  });

  test("that hangs is ended by the timeout", async () => {
    const client = world.client({ apiKey: () => new Promise<string>(() => {}), timeout: 50 });
    expect(await rejection(client.forms.list())).toMatchObject({ name: "TimeoutError" });
  });

  test("is redacted from errors like any other", async () => {
    world.mischief.plan(answer(502, `<p>${READ_ONLY}</p>`));
    const error = await rejection(world.client({ apiKey: () => READ_ONLY, maxRetries: 0 }).forms.list());
    expect((error as Error).message).toMatch(/\(text\/html\): \[redacted\]$/);
  });
});

describe("the correlation id of a response", () => {
  test("is on every result, without showing in JSON or copies", async () => {
    const client = world.client();
    const created = await client.forms.create(world.stay()).withResponse();
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

  test("is undefined if a proxy removed it", async () => {
    world.mischief.plan(answer(200, { id: "f1" }));
    expect((await world.client().forms.retrieve("f1"))._correlationId).toBeUndefined();
  });
});

describe("asResponse", () => {
  test("gives the platform's Response with an unread body, any number of times, and sends once", async () => {
    const call = world.client().forms.create(world.stay());
    const [first, second] = [await call.asResponse(), await call.asResponse()];
    expect(first).toBeInstanceOf(Response);
    expect([first.status, first.headers.get("content-type")]).toEqual([201, "application/json"]);
    expect(await first.json()).toEqual(await call);
    expect(await second.text()).toBe(JSON.stringify(await call));
    expect(world.mischief.requests).toHaveLength(1);
  });

  test("of a list is that of its first page", async () => {
    const response = await world.client().listings.list({ limit: 1 }).asResponse();
    expect(await response.json()).toMatchObject({ items: [{ title: "Alfama" }] });
    expect(world.mischief.requests).toHaveLength(1);
  });

  test("rejects as the call does", async () => {
    world.mischief.plan(envelope(404, "RESOURCE_NOT_FOUND"));
    expect(await rejection(world.client().forms.retrieve("f1").asResponse())).toMatchObject({
      name: "ResourceNotFoundError",
    });
  });
});

describe("a request to a path the SDK has no method for", () => {
  test("sends query, body and headers, and resolves to what it is told", async () => {
    world.mischief.plan(answer(200, { note: "x" }), answer(200, [1, 2]), answer(200, [3]));
    const client = world.client();
    const options = {
      query: { a: "b&c", n: 1, none: undefined },
      body: { at: new Date(0) },
      headers: { "x-a": "b" },
    };
    const note: { note: string } = await client.request<{ note: string }>("PATCH", "/v1/notes/7", options);
    expect(note).toEqual({ note: "x" });
    expect(await client.request<number[]>("GET", "/v1/notes")).toEqual([1, 2]);
    expect(await client.request("POST", "/v1/notes", { idempotencyKey: "mine" })).toEqual([3]);
    const [patch, get, post] = world.mischief.requests;
    expect(patch).toMatchObject({
      method: "PATCH",
      path: "/v1/notes/7?a=b%26c&n=1",
      body: '{"at":"1970-01-01T00:00:00.000Z"}',
      headers: { "x-a": "b", "content-type": "application/json" },
    });
    expect(patch?.headers["idempotency-key"]).toMatch(/^[0-9a-f-]{36}$/);
    expect(get?.headers).not.toHaveProperty("idempotency-key");
    expect(post?.headers["idempotency-key"]).toBe("mine");
  });

  test("a 204 gives undefined; any other empty body is an error", async () => {
    world.mischief.plan(answer(204, ""), answer(200, ""));
    const client = world.client({ maxRetries: 0 });
    const { data, response } = await client.request("DELETE", "/v1/notes/7").withResponse();
    expect([data, response.status]).toEqual([undefined, 204]);
    expect(await rejection(client.request("DELETE", "/v1/notes/7"))).toMatchObject({ name: "ApiError" });
    world.mischief.plan(answer(204, ""));
    expect((await client.request("DELETE", "/v1/notes/7").asResponse()).status).toBe(204);
  });

  test("is retried with one Idempotency-Key, and fails with the same errors", async () => {
    world.mischief.plan(resetBefore, answer(201, { id: "n1" }), envelope(403, "FORBIDDEN"));
    const client = world.client();
    await client.request("POST", "/v1/notes", { body: {} });
    const sent = world.mischief.requests.map(({ headers }) => headers["idempotency-key"]);
    expect(sent).toEqual([expect.stringMatching(UUID), sent[0]]);
    expect(await rejection(client.request("DELETE", "/v1/notes/7"))).toMatchObject({
      name: "ForbiddenError",
      message: "DELETE /v1/notes/7: 403 It was FORBIDDEN",
    });
  });

  test.each(["v1/forms", "@evil.example.com/", ".evil.example.com/", "", "/v1/forms?a=b", "/v1/forms#a"])(
    "%j is refused, and nothing is sent",
    async (path) => {
      const fetch = noFetch();
      expect(await rejection(world.client({ fetch }).request("GET", path))).toBeInstanceOf(GuestFormsError);
      expect(fetch).not.toHaveBeenCalled();
    },
  );
});

describe("fetch options", () => {
  test("reach fetch, a call's before the client's, but not in place of what the SDK sets", async () => {
    const inits: Record<string, unknown>[] = [];
    const fetch: Fetch = async (_, init) => {
      inits.push({ ...init });
      return Response.json({ items: [] });
    };
    const client = world.client({ fetch, fetchOptions: { dispatcher: "one", keepalive: true } });
    const hostile = JSON.parse('{"dispatcher":"two","redirect":"follow","method":"DELETE","headers":{}}');
    await client.listings.list({}, { fetchOptions: hostile });
    expect(inits).toEqual([
      expect.objectContaining({
        dispatcher: "two",
        keepalive: true,
        redirect: "manual",
        method: "GET",
        headers: expect.objectContaining({ authorization: `Bearer ${READ_WRITE}` }),
      }),
    ]);
  });
});

describe("the log level", () => {
  /** The levels of the lines that a retried and a failed call write. */
  async function levels(
    options: { logLevel?: "off" | "error" | "warn" | "info" | "debug" },
    logger?: Logger,
  ) {
    const lines: string[] = [];
    const write = (level: string) => () => void lines.push(level);
    const own = { debug: write("debug"), warn: write("warn"), error: write("error") };
    world.mischief.plan(resetBefore);
    const client = world.client({ logger: logger ?? own, ...options });
    await client.listings.list();
    world.mischief.plan(envelope(404, "RESOURCE_NOT_FOUND"), envelope(503, "INTERNAL_ERROR"));
    await rejection(client.forms.retrieve("f1"));
    await rejection(client.forms.retrieve("f1", { maxRetries: 0 }));
    return lines.join(" ");
  }

  test("lets through what is at least as important", async () => {
    const all = "debug warn debug debug debug error";
    expect(await levels({})).toBe(all);
    expect(await levels({ logLevel: "debug" })).toBe(all);
    expect(await levels({ logLevel: "info" })).toBe("warn error");
    expect(await levels({ logLevel: "warn" })).toBe("warn error");
    expect(await levels({ logLevel: "error" })).toBe("error");
    expect(await levels({ logLevel: "off" })).toBe("");
  });

  test("comes from GUEST_FORMS_LOG where it is not given, and then console is the logger", async () => {
    const spies = (["debug", "warn", "error"] as const).map((level) =>
      vi.spyOn(console, level).mockImplementation(() => {}),
    );
    const count = () => spies.map((spy) => spy.mock.calls.length);
    try {
      await world.client().listings.list();
      expect(count()).toEqual([0, 0, 0]);
      vi.stubEnv("GUEST_FORMS_LOG", "debug");
      await world.client().listings.list();
      expect(count()).toEqual([1, 0, 0]);
      await world.client({ logLevel: "off" }).listings.list();
      expect(count()).toEqual([1, 0, 0]);
      expect(await levels({})).toBe("debug warn debug debug debug error");
      vi.stubEnv("GUEST_FORMS_LOG", "warn");
      expect(await levels({})).toBe("warn error");
      vi.stubEnv("GUEST_FORMS_LOG", "verbose");
      expect(() => world.client()).toThrow(
        "logLevel and GUEST_FORMS_LOG must be one of off, error, warn, info, debug",
      );
    } finally {
      vi.unstubAllEnvs();
      vi.restoreAllMocks();
    }
  });

  test("an error line has the name, the status and the correlation id, and no key", async () => {
    const lines: unknown[][] = [];
    const logger = { debug: () => {}, error: (...line: unknown[]) => void lines.push(line) };
    world.mischief.plan(envelope(503, "INTERNAL_ERROR"));
    await rejection(world.client({ logger, maxRetries: 0 }).forms.create(world.stay()));
    expect(lines).toEqual([
      [
        "guest-forms: POST /v1/forms failed",
        { attempt: 1, error: "InternalError", status: 503, correlationId: CORRELATION_ID },
      ],
    ]);
  });
});

test("a base URL that ends in /v1, as other SDKs have it, is the same as one without", async () => {
  const seen: string[] = [];
  const fetch: Fetch = async (url) => {
    seen.push(url);
    return Response.json({ items: [] });
  };
  for (const [baseUrl, expected] of [
    ["https://forms.example.com/v1", "https://forms.example.com"],
    ["https://forms.example.com/v1/", "https://forms.example.com"],
    ["https://forms.example.com/guests//v1//", "https://forms.example.com/guests"],
    ["https://v1", "https://v1"],
    ["https://forms.example.com:8443/xv1", "https://forms.example.com:8443/xv1"],
    ["https://forms.example.com/v1/x", "https://forms.example.com/v1/x"],
  ] as const) {
    await new GuestForms({ apiKey: READ_WRITE, baseUrl, fetch }).listings.list();
    expect(seen.pop()).toBe(`${expected}/v1/listings`);
  }
});
