// What a server can make endless, large, or false.
import { getEventListeners } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { ApiError, type Fetch, GuestForms, type Page, RateLimitedError } from "../../sdk/src/index.js";
import { afterFile } from "../support/after-file.js";
import { listenLocally } from "../support/network.js";
import { rejection } from "./setup.js";

type Handler = (request: IncomingMessage, response: ServerResponse, url: URL) => void;

const MAX_REQUESTS = 1_000;
let handle: Handler;
let requests = 0;
const closed = vi.fn();
const server = createServer((request, response) => {
  requests++;
  // Ends a list that would never end, so that its test fails.
  if (requests > MAX_REQUESTS) return void request.socket.destroy();
  response.on("close", () => closed(response.writableFinished));
  handle(request, response, new URL(request.url ?? "", "http://localhost"));
});
const baseUrl = `http://127.0.0.1:${await listenLocally(server)}`;
afterFile(() => server.close().closeAllConnections());
beforeEach(() => {
  requests = 0;
  closed.mockClear();
});

const client = new GuestForms({ apiKey: "grf_rw_test", baseUrl, timeout: 30_000 });
const CORRELATION_ID = "5f0e4a3e-6c1c-4f0b-9a52-000000000001";

const respond =
  (body: unknown, status = 200, headers: Record<string, string> = {}): Handler =>
  (_request, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };

/** Sends the same bytes for ever. */
const endless =
  (chunk: string | Buffer, status = 200, headers: Record<string, string> = {}): Handler =>
  (_request, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    const send = () => {
      while (!response.destroyed) if (!response.write(chunk)) return void response.once("drain", send);
    };
    send();
  };

describe("a list", () => {
  /** Pages `0`, `1` … up to `length`; the last one names page `back` as its next one. */
  const cycle =
    (length: number, back: number): Handler =>
    (request, response, url) => {
      const page = Number(url.searchParams.get("cursor") ?? 0);
      const nextCursor = String(page + 1 < length ? page + 1 : back);
      respond({ items: [{ id: `f${page}` }], nextCursor }, 200, { "x-correlation-id": CORRELATION_ID })(
        request,
        response,
        url,
      );
    };

  const ways: Record<string, () => Promise<unknown>> = {
    "for await": async () => {
      for await (const _form of client.forms.list());
    },
    toArray: () => client.forms.list().toArray(),
    nextPage: async () => {
      for (let page: Page<unknown> = await client.listings.list(); page.hasNextPage(); ) page = await page.nextPage();
    },
  };

  test.each(Object.keys(ways).flatMap((way) => [1, 2, 3, 7, 20].map((length) => [way, length] as const)))(
    "whose server repeats its cursors is an error, by %s, after at most three times the %i pages",
    async (way, length) => {
      for (const back of [0, length - 1]) {
        requests = 0;
        handle = cycle(length, back);
        const error = await rejection(ways[way]?.() ?? Promise.resolve());
        expect(error).toBeInstanceOf(ApiError);
        expect(error).toMatchObject({
          message: expect.stringMatching(/^GET \/v1\/\w+: the cursors repeat, so the list would never end$/),
          status: 200,
          correlationId: CORRELATION_ID,
        });
        expect(requests).toBeLessThanOrEqual(3 * length + 1);
      }
    },
  );

  test("that was started at a cursor is an error if the server answers with the same one", async () => {
    handle = respond({ items: [], nextCursor: "a" });
    expect(await rejection(client.forms.list({ cursor: "a" }))).toBeInstanceOf(ApiError);
    expect(requests).toBe(1);
  });

  test("of 300 different cursors ends, and a page can be fetched twice", async () => {
    handle = (request, response, url) => {
      const page = Number(url.searchParams.get("cursor") ?? 0);
      const body = { items: [{ id: `f${page}` }], nextCursor: page < 299 ? String(page + 1) : null };
      respond(body)(request, response, url);
    };
    expect(await client.forms.list().toArray()).toHaveLength(300);
    const first = await client.forms.list();
    expect((await first.nextPage()).items).toEqual((await first.nextPage()).items);
  });

  test("with a page of 300,000 items is read", async () => {
    handle = respond({ items: Array.from({ length: 300_000 }, (_, id) => ({ id: String(id) })) });
    expect(await client.forms.list().toArray()).toHaveLength(300_000);
  });

  test.each([{ items: [null] }, { items: [{ title: "x" }] }, { items: [], nextCursor: 5 }, { items: {} }])(
    "whose page is %j is an error",
    async (page) => {
      handle = respond(page);
      expect(await rejection(client.forms.list())).toMatchObject({
        name: "ApiError",
        message: expect.stringContaining("not a response of this service"),
      });
    },
  );
});

describe("a body", () => {
  const zeros = gzipSync(Buffer.alloc(50_000_000));
  test.each<[string, Handler]>([
    ["without end", endless('{"id":"'.padEnd(65_536, "x"))],
    [
      "of 50 MB in 50 kB of gzip",
      (_request, response) => {
        response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" }).end(zeros);
      },
    ],
    ["of 11 MB with a Content-Length", respond(`{"id":"${"x".repeat(11_000_000)}"}`)],
  ])("%s is an error after 10 MB, is not sent again, and its connection is closed", async (_, handler) => {
    handle = handler;
    const error = await rejection(client.forms.retrieve("f1"));
    expect(error).toMatchObject({
      name: "ApiError",
      status: 200,
      message: `GET ${baseUrl}/v1/forms/f1: 200, more than 10 MB, which no response of this service has: check baseUrl`,
    });
    expect(requests).toBe(1);
    await vi.waitFor(() => expect(closed).toHaveBeenCalled());
  });

  test.each([
    [302, "<p>Moved</p>".padEnd(8_000), "a redirect"],
    [502, "<p>Not here</p>".padEnd(8_000), "(text/html): Not here"],
    [404, "x", `(text/html): ${"x".repeat(200)}`],
  ])("of status %i without end is an error after 256 kB, with its beginning", async (status, chunk, problem) => {
    handle = endless(chunk, status, { "content-type": "text/html" });
    const error = await rejection(client.forms.retrieve("f1", { maxRetries: 0 }));
    expect(error).toMatchObject({ name: "ApiError", status, message: expect.stringContaining(problem) });
    await vi.waitFor(() => expect(closed).toHaveBeenCalledWith(false));
  });

  test("of 9 MB is a result, in chunks of any size", async () => {
    const text = "é".repeat(4_500_000);
    handle = respond({ id: "f1", text });
    expect(await client.forms.retrieve("f1")).toMatchObject({ text });
  });

  test("of a custom fetch that is no web stream has the same maximum", async () => {
    const fetch: Fetch = async () => ({
      status: 200,
      headers: new Headers({ "content-type": "application/json" }),
      body: { pipe: () => {} },
      text: async () => `{"id":"${"x".repeat(11_000_000)}"}`,
    });
    const error = await rejection(client.withOptions({ fetch }).forms.retrieve("f1"));
    expect(error).toMatchObject({ name: "ApiError", message: expect.stringContaining("more than 10 MB") });
  });

  test("of a fetch that ignores the signal is cancelled when the call ends", async () => {
    const cancel = vi.fn();
    const fetch: Fetch = async () => new Response(new ReadableStream({ cancel }), { status: 200 });
    const error = await rejection(client.withOptions({ fetch }).forms.retrieve("f1", { timeout: 50 }));
    expect(error).toMatchObject({ name: "TimeoutError" });
    expect(cancel).toHaveBeenCalledOnce();
  });
});

describe("10,000 calls with one signal", () => {
  const warned = vi.fn();
  beforeEach(() => {
    warned.mockClear();
    process.on("warning", warned);
    return () => void process.off("warning", warned);
  });
  /** Starts the calls of a client of which 20 run at the same time. */
  const startCalls = (signal: AbortSignal, fetch: Fetch) => {
    const { listings } = client.withOptions({ fetch, maxConcurrency: 20 });
    return Array.from({ length: 10_000 }, () =>
      listings.list({}, { signal }).then(
        () => "listed",
        (error: unknown) => (error as Error).name,
      ),
    );
  };

  test("add one listener, which is removed when they have ended, and no runtime warns", async () => {
    const { signal } = new AbortController();
    const add = vi.spyOn(signal, "addEventListener");
    const calls = startCalls(signal, async () => Response.json({ items: [] }));
    expect(await calls[0]).toBe("listed");
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    expect(new Set(await Promise.all(calls))).toEqual(new Set(["listed"]));
    expect(add).toHaveBeenCalledTimes(1);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
    expect(warned).not.toHaveBeenCalled();
  });

  test("are all aborted by it", async () => {
    const controller = new AbortController();
    const fetch = vi.fn<Fetch>(() => new Promise(() => {}));
    const calls = startCalls(controller.signal, fetch);
    await vi.waitFor(() => expect(fetch).toHaveBeenCalledTimes(20));
    controller.abort();
    expect(new Set(await Promise.all(calls))).toEqual(new Set(["AbortError"]));
    expect(fetch).toHaveBeenCalledTimes(20);
    expect(warned).not.toHaveBeenCalled();
  });
});

describe("Retry-After", () => {
  test.each(["86401", "1e300", "Infinity", "Fri, 01 Jan 9999 00:00:00 GMT"])(
    "of more than a day is not waited for: %s",
    async (retryAfter) => {
      handle = respond({ code: "RATE_LIMITED", message: "Slow" }, 429, { "retry-after": retryAfter });
      const signal = AbortSignal.timeout(5_000);
      const patient = client.withOptions({ timeout: Infinity, maxRetries: 1 });
      vi.spyOn(Math, "random").mockReturnValue(0);
      expect(await rejection(patient.listings.list({}, { signal }))).toBeInstanceOf(RateLimitedError);
      expect(requests).toBe(retryAfter === "Infinity" ? 2 : 1);
      vi.restoreAllMocks();
    },
  );

  test("of less than a second is one second, so that a server cannot cause a loop without pause", async () => {
    handle = respond({ code: "RATE_LIMITED", message: "Slow" }, 429, { "retry-after": "0.0001" });
    const error = await rejection(client.listings.list({}, { maxRetries: 0 }));
    expect(error).toMatchObject({ retryAfter: 1 });
  });
});

test("whatever a server sends, the parts of an error but its headers and fields are short, without control characters", async () => {
  const long = "\u001b[31m".padEnd(9_000, "x");
  const headers = { "x-correlation-id": "y".repeat(9_000), "content-type": "z".repeat(900) };
  const lines: string[] = [];
  const logger = { debug: (...line: unknown[]) => void lines.push(JSON.stringify(line)) };
  for (const body of [{ code: long, message: long, correlationId: long }, { code: long, message: long }, long]) {
    handle = respond(body, 400, headers);
    const error = (await rejection(client.withOptions({ logger }).listings.list())) as Error;
    for (const part of [JSON.stringify(error), String(error.stack?.split("\n")[0])]) {
      expect(part.length).toBeLessThan(900);
      expect(JSON.stringify(part)).not.toContain("u001b");
    }
  }
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(500);
});
