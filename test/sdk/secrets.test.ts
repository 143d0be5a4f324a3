import { inspect } from "node:util";
import { describe, expect, test, vi } from "vitest";
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

const context = await useGateway();
const secret = context.readWrite.slice(7);

/** Dumps a value in every way that a log, a debugger or a bug report might. */
function dump(value: unknown): string {
  const seen = new Set<unknown>();
  const visit = (part: unknown): string => {
    if (typeof part !== "object" || part === null || seen.has(part)) return String(part);
    seen.add(part);
    return Reflect.ownKeys(part)
      .map((name) => `${String(name)} ${visit(Reflect.get(part, name))}`)
      .join("\n");
  };
  return [visit(value), inspect(value, { depth: 20, showHidden: true }), JSON.stringify(value)].join("\n");
}

test("no dump of the client contains the key", () => {
  const client = context.client();
  expect(dump(client)).not.toContain(secret);
  expect(dump(client.forms)).not.toContain(secret);
  expect(dump(client.forms.list())).not.toContain(secret);
});

describe("no error contains the key", () => {
  const echoIn =
    (toBody: (text: string) => string): Fault =>
    ({ request, response }) => {
      const { authorization = "" } = request.headers;
      response.writeHead(502, { "content-type": "application/json", "x-debug": authorization });
      response.end(toBody(authorization));
    };
  const toEnvelope = (text: string) =>
    JSON.stringify({ code: text, message: text, correlationId: text, errors: [{ field: text, issue: text }] });
  test.each<[string, Fault]>([
    ["a reset", resetBeforeProcessing],
    ["a truncated body", truncatedBody],
    ["a response that is not HTTP", notHttp],
    ["a timeout", slowHeaders(2_000)],
    ["an error envelope", errorEnvelope(403, "FORBIDDEN")],
    ["a page that echoes the key", echoIn((text) => `<pre>${text}</pre>`)],
    ["an error envelope that echoes the key", echoIn(toEnvelope)],
    ["a redirect", respondWith(302, "", { location: "/" })],
  ])("no error contains the key after %s", async (_, fault) => {
    context.proxy.injectAlways(fault);
    for (const apiKey of [context.readWrite, () => context.readWrite]) {
      const client = context.client({ apiKey, maxRetries: 0, timeout: 500 });
      expect(dump(await rejection(client.forms.list()))).not.toContain(secret);
    }
  });

  test("no error contains the key if errors of fetch contain the request", async () => {
    const fetch: Fetch = (_url, init) => {
      const cause = Object.assign(new Error(`sent ${init.headers.authorization}`), { code: "E_SENT", init });
      throw Object.assign(new TypeError("failed", { cause }), { request: init });
    };
    const error = await rejection(context.client({ fetch, maxRetries: 0 }).forms.create(context.uniqueStay()));
    expect(dump(error)).not.toContain(secret);
    expect(error).toMatchObject({
      message: `POST ${context.proxy.url}/v1/forms: no complete response (E_SENT)`,
      cause: { name: "TypeError", cause: { code: "E_SENT", message: "sent Bearer [redacted]" } },
    });
  });

  test.each([
    ["a key with a line break", () => ({ apiKey: `${context.readWrite}\nx` })],
    ["a key with a letter outside ASCII", () => ({ apiKey: `${context.readWrite}é` })],
    ["a key with a space", () => ({ apiKey: `a b ${context.readWrite}` })],
    ["swapped key and base URL", () => ({ apiKey: context.proxy.url, baseUrl: context.readWrite })],
  ])("%s is rejected without quoting the key", async (_, options) => {
    const error = await rejection(Promise.resolve().then(() => context.client(options())));
    expect(error).toMatchObject({ name: "GuestFormsError" });
    expect(dump(error)).not.toContain(secret);
  });
});

test("the log has a line per request, with no key, body or email address", async () => {
  const lines: unknown[][] = [];
  const logger = {
    debug: (...line: unknown[]) => void lines.push(["debug", ...line]),
    warn: (...line: unknown[]) => void lines.push(["warn", ...line]),
    error: (...line: unknown[]) => void lines.push(["error", ...line]),
  };
  context.proxy.injectNext(errorEnvelope(503, "INTERNAL_ERROR", { "x-correlation-id": "c-1" }), resetBeforeProcessing);
  const client = context.client({ logger });
  await client.forms.create(context.uniqueStay());
  const [{ id: listingId } = { id: "" }] = context.listings;
  await client.forms.list({ listingId });
  context.proxy.injectNext(errorEnvelope(503, "INTERNAL_ERROR"));
  await rejection(client.forms.create(context.uniqueStay(), { maxRetries: 0 }));
  const request = (attempt: number, status?: number, more = {}) => {
    const correlationId = status && expect.stringMatching(/^[0-9a-f-]{36}$/);
    return { method: "POST", path: "/v1/forms", status, ms: expect.any(Number), attempt, correlationId, ...more };
  };
  const failed = { attempt: 1, error: "InternalError", status: 503, correlationId: CORRELATION_ID };
  const retry = (attempt: number) => expect.objectContaining({ attempt });
  expect(lines).toEqual([
    ["debug", "guest-forms: POST /v1/forms", request(1, 503, { correlationId: "c-1" })],
    ["warn", "guest-forms: retrying POST /v1/forms", retry(1)],
    ["debug", "guest-forms: POST /v1/forms", request(2)],
    ["warn", "guest-forms: retrying POST /v1/forms", retry(2)],
    ["debug", "guest-forms: POST /v1/forms", request(3, 201)],
    ["debug", "guest-forms: GET /v1/forms", request(1, 200, { method: "GET" })],
    ["debug", "guest-forms: POST /v1/forms", request(1, 503, { correlationId: undefined })],
    ["error", "guest-forms: POST /v1/forms failed", failed],
  ]);
  expect(dump(lines)).not.toMatch(new RegExp(`${secret}|ana@|numberOfGuests|${listingId}`));
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

  const ALL = "debug warn debug debug debug error";

  test.each([
    [undefined, ALL],
    ["debug", ALL],
    ["info", "warn error"],
    ["warn", "warn error"],
    ["error", "error"],
    ["off", ""],
  ] as const)("logLevel drops the lines below it: %s", async (logLevel, expected) => {
    expect(await loggedLevels(logLevel ? { logLevel } : {})).toBe(expected);
  });

  test("without logLevel and logger, GUEST_FORMS_LOG sets the level and lines go to console", async () => {
    const debug = vi.spyOn(console, "debug").mockImplementation(() => {});
    await context.client().listings.list();
    expect(debug).not.toHaveBeenCalled();
    vi.stubEnv("GUEST_FORMS_LOG", "debug");
    await context.client().listings.list();
    await context.client({ logLevel: "off" }).listings.list();
    expect(debug).toHaveBeenCalledTimes(1);
    vi.stubEnv("GUEST_FORMS_LOG", "warn");
    expect(await loggedLevels({})).toBe("warn error");
    vi.stubEnv("GUEST_FORMS_LOG", "verbose");
    expect(() => context.client()).toThrow("logLevel and GUEST_FORMS_LOG must be one of off, error, warn, info, debug");
  });
});
