import { inspect } from "node:util";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { Fetch } from "../../sdk/src/index.js";
import {
  CORRELATION_ID,
  errorEnvelope,
  type Fault,
  notHttp,
  resetBeforeProcessing,
  respondWith,
  slowHeaders,
  truncatedBody,
} from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = useGateway();
let secret: string;
beforeAll(() => {
  secret = context.readWrite.slice(7);
});

/** Dumps a value in every way that a log, a debugger or a bug report might. */
function dump(value: unknown): string {
  const seen = new Set<unknown>();
  const parts: string[] = [];
  const visit = (part: unknown): void => {
    if (typeof part !== "object" || part === null || seen.has(part)) {
      parts.push(String(part));
      return;
    }
    seen.add(part);
    for (const name of Reflect.ownKeys(part)) {
      parts.push(String(name));
      visit(Reflect.get(part, name));
    }
  };
  visit(value);
  return [parts.join("\n"), inspect(value, { depth: 20, showHidden: true }), JSON.stringify(value)].join(
    "\n",
  );
}

test("no dump of the client contains the key", () => {
  const client = context.client();
  expect(dump(client)).not.toContain(secret);
  expect(dump(client.forms)).not.toContain(secret);
  expect(dump(client.forms.list())).not.toContain(secret);
});

describe("no error contains the key", () => {
  const echoCredentials: Fault = ({ request, response }) => {
    const { authorization = "" } = request.headers;
    response.writeHead(500, { "content-type": "application/json", "x-debug": authorization });
    const body = { code: authorization, message: authorization, correlationId: authorization };
    response.end(JSON.stringify({ ...body, errors: [{ field: authorization, issue: authorization }] }));
  };
  test.each<[string, Fault]>([
    ["a reset", resetBeforeProcessing],
    ["a truncated body", truncatedBody],
    ["a response that is not HTTP", notHttp],
    ["a timeout", slowHeaders(2_000)],
    ["an error envelope", errorEnvelope(403, "FORBIDDEN")],
    [
      "an HTML page that echoes the key",
      ({ request, response }) => {
        response.writeHead(502, { "content-type": "text/html", "x-debug": request.headers.authorization });
        response.end(`<pre>${request.headers.authorization}</pre>`);
      },
    ],
    ["an error envelope that echoes the key", echoCredentials],
    ["a redirect", respondWith(302, "", { location: "/" })],
  ])("no error contains the key after %s", async (_, fault) => {
    context.proxy.injectAlways(fault);
    const error = await rejection(context.client({ maxRetries: 0, timeout: 500 }).forms.list());
    expect(dump(error)).not.toContain(secret);
  });

  test("no error contains the key if errors of fetch contain the request", async () => {
    const fetch: Fetch = (_url, init) => {
      const cause = Object.assign(new Error(`sent ${init.headers.authorization}`), { code: "E_SENT", init });
      throw Object.assign(new TypeError("failed", { cause }), { request: init });
    };
    const error = await rejection(
      context.client({ fetch, maxRetries: 0 }).forms.create(context.uniqueStay()),
    );
    expect(dump(error)).not.toContain(secret);
    expect(error).toMatchObject({
      message: "POST /v1/forms: no complete response (E_SENT)",
      cause: { name: "TypeError", cause: { code: "E_SENT", message: "sent Bearer [redacted]" } },
    });
  });

  test.each([42, null, undefined, "text", { cause: { cause: {} } }])(
    "a fetch that throws %j causes a ConnectionError",
    async (thrown) => {
      const error = await rejection(
        context.client({ fetch: () => Promise.reject(thrown), maxRetries: 0 }).forms.list(),
      );
      expect(error).toMatchObject({ name: "ConnectionError" });
    },
  );

  test("a key with invalid characters is rejected without being quoted", async () => {
    for (const apiKey of [`${context.readWrite}\nx`, `${context.readWrite}é`, `a b ${context.readWrite}`]) {
      const error = await rejection(Promise.resolve().then(() => context.client({ apiKey })));
      expect(error).toMatchObject({ name: "GuestFormsError" });
      expect(dump(error)).not.toContain(secret);
    }
  });
});

test("an error about swapped key and base URL does not contain the key", () => {
  expect(() => context.client({ apiKey: context.proxy.url, baseUrl: context.readWrite })).toThrow(
    /^baseUrl must be a URL such as/,
  );
});

describe("the log", () => {
  test("the log has a line per request, with no key, body or email address", async () => {
    const lines: unknown[][] = [];
    const logger = {
      debug: (...line: unknown[]) => void lines.push(["debug", ...line]),
      warn: (...line: unknown[]) => void lines.push(["warn", ...line]),
    };
    context.proxy.injectNext(
      errorEnvelope(503, "INTERNAL_ERROR", { "x-correlation-id": "c-1" }),
      resetBeforeProcessing,
    );
    const client = context.client({ logger });
    await client.forms.create(context.uniqueStay());
    const [{ id: listingId } = { id: "" }] = context.listings;
    await client.forms.list({ listingId });
    const request = (attempt: number, status?: number) => ({
      method: "POST",
      path: "/v1/forms",
      status,
      ms: expect.any(Number),
      attempt,
      correlationId: status === 503 ? "c-1" : status && expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(lines).toEqual([
      ["debug", "guest-forms: POST /v1/forms", request(1, 503)],
      ["warn", "guest-forms: retrying POST /v1/forms", expect.objectContaining({ attempt: 1, status: 503 })],
      ["debug", "guest-forms: POST /v1/forms", request(2)],
      ["warn", "guest-forms: retrying POST /v1/forms", expect.objectContaining({ attempt: 2 })],
      ["debug", "guest-forms: POST /v1/forms", request(3, 201)],
      ["debug", "guest-forms: GET /v1/forms", { ...request(1, 200), method: "GET" }],
    ]);
    expect(dump(lines)).not.toMatch(new RegExp(`${secret}|ana@|numberOfGuests|${listingId}`));
  });

  test("a logger that throws does not fail the call", async () => {
    const debug = () => {
      throw new Error("disk full");
    };
    expect(await context.client({ logger: { debug } }).forms.create(context.uniqueStay())).toHaveProperty(
      "id",
    );
  });
});

describe("the log level", () => {
  /** Returns the levels of the lines written by a retried and a failed call. */
  async function loggedLevels(options: { logLevel?: "off" | "error" | "warn" | "info" | "debug" }) {
    const lines: string[] = [];
    const write = (level: string) => () => void lines.push(level);
    const recorder = { debug: write("debug"), warn: write("warn"), error: write("error") };
    context.proxy.injectNext(resetBeforeProcessing);
    const client = context.client({ logger: recorder, ...options });
    await client.listings.list();
    context.proxy.injectNext(errorEnvelope(404, "RESOURCE_NOT_FOUND"), errorEnvelope(503, "INTERNAL_ERROR"));
    await rejection(client.forms.retrieve("f1"));
    await rejection(client.forms.retrieve("f1", { maxRetries: 0 }));
    return lines.join(" ");
  }

  test("logLevel drops the lines below it", async () => {
    const all = "debug warn debug debug debug error";
    expect(await loggedLevels({})).toBe(all);
    expect(await loggedLevels({ logLevel: "debug" })).toBe(all);
    expect(await loggedLevels({ logLevel: "info" })).toBe("warn error");
    expect(await loggedLevels({ logLevel: "warn" })).toBe("warn error");
    expect(await loggedLevels({ logLevel: "error" })).toBe("error");
    expect(await loggedLevels({ logLevel: "off" })).toBe("");
  });

  test("without logLevel and logger, GUEST_FORMS_LOG sets the level and lines go to console", async () => {
    const spies = (["debug", "warn", "error"] as const).map((level) =>
      vi.spyOn(console, level).mockImplementation(() => {}),
    );
    const count = () => spies.map((spy) => spy.mock.calls.length);
    await context.client().listings.list();
    expect(count()).toEqual([0, 0, 0]);
    vi.stubEnv("GUEST_FORMS_LOG", "debug");
    await context.client().listings.list();
    expect(count()).toEqual([1, 0, 0]);
    await context.client({ logLevel: "off" }).listings.list();
    expect(count()).toEqual([1, 0, 0]);
    expect(await loggedLevels({})).toBe("debug warn debug debug debug error");
    vi.stubEnv("GUEST_FORMS_LOG", "warn");
    expect(await loggedLevels({})).toBe("warn error");
    vi.stubEnv("GUEST_FORMS_LOG", "verbose");
    expect(() => context.client()).toThrow(
      "logLevel and GUEST_FORMS_LOG must be one of off, error, warn, info, debug",
    );
  });

  test("an error line has the error name, the status and the correlation id, and no key", async () => {
    const lines: unknown[][] = [];
    const logger = { debug: () => {}, error: (...line: unknown[]) => void lines.push(line) };
    context.proxy.injectNext(errorEnvelope(503, "INTERNAL_ERROR"));
    await rejection(context.client({ logger, maxRetries: 0 }).forms.create(context.uniqueStay()));
    expect(lines).toEqual([
      [
        "guest-forms: POST /v1/forms failed",
        { attempt: 1, error: "InternalError", status: 503, correlationId: CORRELATION_ID },
      ],
    ]);
  });
});
