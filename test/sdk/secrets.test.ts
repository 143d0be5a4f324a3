import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import type { Fetch } from "../../sdk/src/index.js";
import { READ_WRITE } from "./fake-service.js";
import { answer, envelope, type Fault, garbage, halfBody, resetBefore, slowHeaders } from "./mischief.js";
import { rejection, useWorld } from "./setup.js";

const world = useWorld();
const SECRET = READ_WRITE.slice(7);

/** All that a log, a debugger or a bug report may show of a value. */
function everything(value: unknown): string {
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

test("the client shows the key in no way", () => {
  const client = world.client();
  expect(everything(client)).not.toContain(SECRET);
  expect(everything(client.forms)).not.toContain(SECRET);
  expect(everything(client.forms.list())).not.toContain(SECRET);
});

describe("no error shows the key", () => {
  const echo: Fault = ({ request, response }) => {
    const { authorization = "" } = request.headers;
    response.writeHead(500, { "content-type": "application/json", "x-debug": authorization });
    const body = { code: authorization, message: authorization, correlationId: authorization };
    response.end(JSON.stringify({ ...body, errors: [{ field: authorization, issue: authorization }] }));
  };
  test.each<[string, Fault]>([
    ["a reset", resetBefore],
    ["half an answer", halfBody],
    ["garbage", garbage],
    ["a timeout", slowHeaders(2_000)],
    ["an envelope", envelope(403, "FORBIDDEN")],
    [
      "an HTML page that echoes the request",
      ({ request, response }) => {
        response.writeHead(502, { "content-type": "text/html", "x-debug": request.headers.authorization });
        response.end(`<pre>${request.headers.authorization}</pre>`);
      },
    ],
    ["an envelope that echoes the request", echo],
    ["a redirect", answer(302, "", { location: "/" })],
  ])("%s", async (_, fault) => {
    world.mischief.always(fault);
    const error = await rejection(world.client({ maxRetries: 0, timeout: 500 }).forms.list());
    expect(everything(error)).not.toContain(SECRET);
  });

  test("a fetch whose errors carry the request", async () => {
    const fetch: Fetch = (_url, init) => {
      const cause = Object.assign(new Error(`sent ${init.headers.authorization}`), { code: "E_SENT", init });
      throw Object.assign(new TypeError("failed", { cause }), { request: init });
    };
    const error = await rejection(world.client({ fetch, maxRetries: 0 }).forms.create(world.stay()));
    expect(everything(error)).not.toContain(SECRET);
    expect(error).toMatchObject({
      message: "POST /v1/forms: no complete response (E_SENT)",
      cause: { name: "TypeError", cause: { code: "E_SENT", message: "sent Bearer [redacted]" } },
    });
  });

  test.each([42, null, undefined, "text", { cause: { cause: {} } }])(
    "a fetch that throws %j",
    async (thrown) => {
      const error = await rejection(
        world.client({ fetch: () => Promise.reject(thrown), maxRetries: 0 }).forms.list(),
      );
      expect(error).toMatchObject({ name: "ConnectionError" });
    },
  );

  test("a key that HTTP forbids is refused without being quoted", () => {
    for (const apiKey of [`${READ_WRITE}\nx`, `${READ_WRITE}é`, `a b ${READ_WRITE}`]) {
      let error: unknown;
      try {
        world.client({ apiKey });
      } catch (thrown) {
        error = thrown;
      }
      expect(error).toMatchObject({ name: "GuestFormsError" });
      expect(everything(error)).not.toContain(SECRET);
    }
  });
});

test("nor where key and base URL were mixed up", () => {
  expect(() => world.client({ apiKey: world.mischief.url, baseUrl: READ_WRITE })).toThrow(
    /^baseUrl is no URL such as/,
  );
});

describe("the log", () => {
  test("has a line for each request, with no key, body or address", async () => {
    const lines: unknown[][] = [];
    const logger = {
      debug: (...line: unknown[]) => void lines.push(["debug", ...line]),
      warn: (...line: unknown[]) => void lines.push(["warn", ...line]),
    };
    world.mischief.plan(envelope(503, "INTERNAL_ERROR", { "x-correlation-id": "c-1" }), resetBefore);
    const client = world.client({ logger });
    await client.forms.create(world.stay());
    await client.forms.list({ listingId: "l-1" });
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
    expect(everything(lines)).not.toMatch(new RegExp(`${SECRET}|ana@|numberOfGuests|l-1`));
  });

  test("one that throws does not lose the answer", async () => {
    const debug = () => {
      throw new Error("disk full");
    };
    expect(await world.client({ logger: { debug } }).forms.create(world.stay())).toHaveProperty("id");
  });
});
