import { describe, expect, test, vi } from "vitest";
import { type ApiError, ConnectionError, type FormV1, RateLimitedError } from "../../sdk/src/index.js";
import {
  errorEnvelope,
  type Fault,
  RETRIED_FAULTS,
  resetAfterProcessing,
  resetBeforeProcessing,
  respondWith,
  truncatedBody,
} from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = await useGateway();
const sentKeys = () => context.proxy.requests.map(({ headers }) => headers["idempotency-key"]);
const limited = (retryAfter: string) => errorEnvelope(429, "RATE_LIMITED", { "retry-after": retryAfter });

describe("a create makes exactly one form", () => {
  /** Expects one new form, and that all requests had one body and no Idempotency-Key. */
  async function expectOneForm(before: FormV1[], form: FormV1) {
    expect((await context.forms()).slice(before.length)).toEqual([form]);
    expect(new Set(context.proxy.requests.map(({ body }) => body)).size).toBe(1);
    expect(new Set(sentKeys())).toEqual(new Set([undefined]));
  }

  test.each(RETRIED_FAULTS)("a retried create makes exactly one form despite %s", async (_, fault) => {
    const before = await context.forms();
    context.proxy.injectNext(fault);
    await expectOneForm(before, await context.client().forms.create(context.uniqueStay()));
  });

  test("a retried create makes exactly one form despite all faults in a row", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0.01);
    const before = await context.forms();
    context.proxy.injectNext(...RETRIED_FAULTS.map(([, fault]) => fault));
    const client = context.client({ maxRetries: 15, timeout: 60_000 });
    await expectOneForm(before, await client.forms.create(context.uniqueStay()));
    expect(context.proxy.requests.length).toBeGreaterThan(8);
  });

  test("a create has no Idempotency-Key unless the caller gives one, and replays its form even after an update", async () => {
    const client = context.client({ maxRetries: 0 });
    const before = await context.forms();
    const stay = context.uniqueStay();
    const form = await client.forms.create(stay);
    await client.forms.update(form.id, { ...stay, numberOfGuests: 3 });
    const repeated = await client.forms.create(stay).withResponse();
    expect([repeated.replayed, repeated.data.id]).toEqual([true, form.id]);
    await client.forms.create(stay, { idempotencyKey: "second stay" });
    expect(sentKeys()).toEqual([undefined, undefined, undefined, "second stay"]);
    expect((await context.forms()).length - before.length).toBe(2);
  });

  test.each([undefined, "row 17"])(
    "a create that failed with the Idempotency-Key %s can be repeated with it",
    async (idempotencyKey) => {
      const client = context.client({ maxRetries: 0 });
      const before = await context.forms();
      const stay = context.uniqueStay();
      context.proxy.injectNext(resetAfterProcessing);
      await rejection(client.forms.create(stay, { idempotencyKey }));
      const repeated = await client.forms.create(stay, { idempotencyKey }).withResponse();
      expect(repeated.replayed).toBe(true);
      expect((await context.forms()).slice(before.length)).toEqual([repeated.data]);
    },
  );

  test("updates and reads are retried", async () => {
    const { forms, listings } = context.client();
    const form = await forms.create(context.uniqueStay());
    for (const call of [
      () => forms.update(form.id, { ...context.uniqueStay(), numberOfGuests: 5 }),
      () => forms.retrieve(form.id),
      () => forms.list(),
      () => listings.list(),
    ]) {
      context.proxy.injectNext(truncatedBody);
      await call();
    }
    expect(context.proxy.requests).toHaveLength(9);
  });
});

describe("the end of retries", () => {
  test("429s are retried after Retry-After as often as the timeout allows, and do not count as retries", async () => {
    context.proxy.injectAlways(limited("1"));
    const client = context.client({ maxRetries: 1, timeout: 3_500 });
    const error = await rejection(client.forms.create(context.uniqueStay()));
    expect(error).toBeInstanceOf(RateLimitedError);
    expect((error as RateLimitedError).retryAfter).toBe(1);
    const times = context.proxy.requests.map((request) => request.at);
    expect(times.length).toBeGreaterThan(2);
    for (const [i, at] of times.slice(1).entries()) expect(at - (times[i] ?? 0)).toBeGreaterThanOrEqual(990);
  });

  test("after a 429, the retries of other failures are as many as before", async () => {
    context.proxy.injectNext(limited("1"), resetBeforeProcessing);
    await context.client({ maxRetries: 1 }).listings.list();
    expect(context.proxy.requests).toHaveLength(3);
  });

  test.each([
    ["a 429 with maxRetries 0", "1", 0],
    ["a 429 without Retry-After, after maxRetries", "", 2],
  ])("%s is thrown", async (_, retryAfter, maxRetries) => {
    context.proxy.injectAlways(limited(retryAfter));
    expect(await rejection(context.client({ maxRetries }).listings.list())).toBeInstanceOf(RateLimitedError);
    expect(context.proxy.requests).toHaveLength(maxRetries + 1);
  });

  test("a 429 that is not of the service counts as a retry, and its Retry-After does not extend the deadline", async () => {
    context.proxy.injectAlways(respondWith(429, "<p>slow down", { "retry-after": "1" }));
    const client = context.client({ maxRetries: 1 });
    expect(await rejection(client.listings.list())).toMatchObject({ name: "ApiError", status: 429 });
    expect(context.proxy.requests).toHaveLength(2);
    context.proxy.injectAlways(respondWith(429, "<p>slow down", { "retry-after": "86400" }));
    const unlimited = context.client({ timeout: undefined });
    expect(await rejection(unlimited.listings.list())).toMatchObject({ retryAfter: 86_400 });
    expect(context.proxy.requests).toHaveLength(3);
  });

  test.each([
    ["a 429 with a date", () => limited(new Date(Date.now() + 60_000).toUTCString())],
    ["a 503", () => errorEnvelope(503, "INTERNAL_ERROR", { "retry-after": "60" })],
  ])("%s is thrown immediately if Retry-After exceeds the deadline", async (_, fault) => {
    context.proxy.injectAlways(fault());
    const started = Date.now();
    const error = await rejection(context.client({ timeout: 10_000 }).listings.list());
    expect((error as ApiError).retryAfter).toBeGreaterThan(50);
    expect(Date.now() - started).toBeLessThan(8_000);
    expect(context.proxy.requests).toHaveLength(1);
  });

  test.each([0, 1])("the last error is thrown after %d retries", async (maxRetries) => {
    context.proxy.injectAlways(resetBeforeProcessing);
    const { listings } = context.client({ maxRetries });
    expect(await rejection(listings.list())).toBeInstanceOf(ConnectionError);
    expect(context.proxy.requests).toHaveLength(maxRetries + 1);
    context.proxy.injectAlways(respondWith(500, "<p>"));
    const { listings: retrying } = context.client({ maxRetries: 5 });
    expect(await rejection(retrying.list({}, { maxRetries }))).toMatchObject({ name: "ApiError" });
    expect(context.proxy.requests).toHaveLength(2 * (maxRetries + 1));
  });

  test.each<[string, Fault]>([
    ...[400, 401, 403, 404, 405, 409, 413, 415, 422].map((status): [string, Fault] => [
      `status ${status}`,
      errorEnvelope(status, "WHATEVER"),
    ]),
    ["an HTML page with status 200", respondWith(200, "<h1>Please log in</h1>")],
  ])("%s is not retried", async (_, fault) => {
    context.proxy.injectAlways(fault);
    await rejection(context.client().forms.create(context.uniqueStay()));
    expect(context.proxy.requests).toHaveLength(1);
  });
});

describe("retry delays", () => {
  /** Returns the delays of a failing call, in which Math.random always returns `random`. */
  async function delaysOf(random: number, options: Parameters<typeof context.client>[0]): Promise<unknown[]> {
    vi.useFakeTimers();
    vi.spyOn(Math, "random").mockReturnValue(random);
    const delays: unknown[] = [];
    const logger = {
      debug: () => {},
      warn: (_: string, fields: { delay?: unknown }) => void delays.push(fields.delay),
    };
    const failing = rejection(context.client({ ...options, logger }).listings.list());
    await vi.runAllTimersAsync();
    await failing;
    return delays;
  }

  test("retry delays grow exponentially with full jitter, up to 8 s", async () => {
    const fetch = () => Promise.reject(new TypeError("fetch failed"));
    const options = { fetch, timeout: Number.POSITIVE_INFINITY, maxRetries: 7 };
    expect(await delaysOf(0.999999, options)).toEqual([500, 1000, 2000, 4000, 8000, 8000, 8000]);
    expect(await delaysOf(0, options)).toEqual([0, 0, 0, 0, 0, 0, 0]);
  });

  test.each([
    ["up to a quarter longer", 60_000, 5000],
    ["by at most half of the time left until the deadline", 4_500, 4250],
  ])("the delay after Retry-After is never shorter, and at random longer: %s", async (_, timeout, longest) => {
    const fetch = async () => new Response("{}", { status: 503, headers: { "retry-after": "4" } });
    const options = { fetch, timeout, maxRetries: 1 };
    expect(await delaysOf(0, options)).toEqual([4000]);
    expect(await delaysOf(0.999999, options)).toEqual([longest]);
  });
});
