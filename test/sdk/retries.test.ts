import { afterEach, describe, expect, test, vi } from "vitest";
import { ApiError, ConnectionError, InternalError, RateLimitedError } from "../../sdk/src/index.js";
import { answer, envelope, halfBody, RETRIED, resetAfter, resetBefore } from "./mischief.js";
import { rejection, useWorld } from "./setup.js";

const world = useWorld();
afterEach(() => void vi.restoreAllMocks());

describe("whatever comes between, a create makes exactly one form", () => {
  test.each(RETRIED)("%s", { timeout: 60_000 }, async (_, fault) => {
    const stay = world.stay();
    world.mischief.plan(fault);
    const form = await world.client().forms.create(stay);
    expect(world.service.creates).toHaveLength(1);
    expect(world.service.forms.filter((item) => item.checkInDate === stay.checkInDate)).toEqual([form]);
    const keys = world.mischief.requests.map((request) => request.headers["idempotency-key"]);
    expect(new Set(keys)).toEqual(new Set(world.service.creates));
    const bodies = world.mischief.requests.map((request) => request.body);
    expect(new Set(bodies).size).toBe(1);
  });

  test("all of them in a row", { timeout: 60_000 }, async () => {
    vi.spyOn(Math, "random").mockReturnValue(0.01);
    world.mischief.plan(...RETRIED.map(([, fault]) => fault));
    await world.client({ maxRetries: 15, timeout: 60_000 }).forms.create(world.stay());
    expect(world.service.creates).toHaveLength(1);
    expect(world.mischief.requests.length).toBeGreaterThan(8);
  });

  test("each create has an Idempotency-Key of its own, or the caller's", async () => {
    const client = world.client();
    await client.forms.create(world.stay());
    await client.forms.create(world.stay());
    world.mischief.plan(resetAfter);
    const { replayed } = await client.forms.create(world.stay(), { idempotencyKey: "row 17" }).withResponse();
    expect(replayed).toBe(true);
    expect(new Set(world.service.creates).size).toBe(3);
    expect(world.service.creates[2]).toBe("row 17");
  });

  test("an update and the reads are tried again too", async () => {
    const client = world.client();
    const form = await client.forms.create(world.stay());
    for (const call of [
      () => client.forms.update(form.id, { ...world.stay(), numberOfGuests: 5 }),
      () => client.forms.retrieve(form.id),
      () => client.forms.list(),
      () => client.listings.list(),
    ]) {
      world.mischief.plan(halfBody);
      await call();
    }
    expect(world.mischief.requests).toHaveLength(9);
  });
});

describe("when to stop", () => {
  test("a 429 storm ends as RateLimitedError after maxRetries, having waited as told each time", async () => {
    world.mischief.always(envelope(429, "RATE_LIMITED", { "retry-after": "1" }));
    const error = await rejection(world.client({ maxRetries: 2 }).forms.create(world.stay()));
    expect(error).toBeInstanceOf(RateLimitedError);
    expect((error as RateLimitedError).retryAfter).toBe(1);
    const times = world.mischief.requests.map((request) => request.at);
    expect(times).toHaveLength(3);
    for (const [i, at] of times.slice(1).entries()) expect(at - (times[i] ?? 0)).toBeGreaterThanOrEqual(990);
  });

  test.each([
    ["a 429 in seconds", () => envelope(429, "RATE_LIMITED", { "retry-after": "60" }), RateLimitedError],
    [
      "a 429 as a date",
      () => envelope(429, "RATE_LIMITED", { "retry-after": new Date(Date.now() + 60_000).toUTCString() }),
      RateLimitedError,
    ],
    ["a 503", () => envelope(503, "INTERNAL_ERROR", { "retry-after": "60" }), InternalError],
  ])("%s is thrown at once where the wait would pass the deadline", async (_, fault, type) => {
    world.mischief.always(fault());
    const started = Date.now();
    const error = await rejection(world.client({ timeout: 10_000 }).listings.list());
    expect(error).toBeInstanceOf(type);
    expect((error as ApiError).retryAfter).toBeGreaterThan(50);
    expect(Date.now() - started).toBeLessThan(8_000);
    expect(world.mischief.requests).toHaveLength(1);
  });

  test("the last failure is thrown once the tries are used up", async () => {
    world.mischief.always(resetBefore);
    expect(await rejection(world.client({ maxRetries: 1 }).listings.list())).toBeInstanceOf(ConnectionError);
    expect(world.mischief.requests).toHaveLength(2);
    world.mischief.always(answer(500, "<p>"));
    expect(await rejection(world.client().listings.list({}, { maxRetries: 1 }))).toBeInstanceOf(ApiError);
    expect(world.mischief.requests).toHaveLength(4);
  });

  test.each([400, 401, 403, 404, 405, 409, 413, 415, 422])("a %i is not tried again", async (status) => {
    world.mischief.always(envelope(status, "WHATEVER"));
    await rejection(world.client().forms.create(world.stay()));
    expect(world.mischief.requests).toHaveLength(1);
  });

  test("maxRetries 0 tries once", async () => {
    world.mischief.always(resetBefore);
    await rejection(world.client({ maxRetries: 0 }).forms.create(world.stay()));
    expect(world.mischief.requests).toHaveLength(1);
  });

  test("an HTML page with status 200 is not tried again: nothing was cut off", async () => {
    world.mischief.always(answer(200, "<h1>Please log in</h1>"));
    await rejection(world.client().listings.list());
    expect(world.mischief.requests).toHaveLength(1);
  });
});

describe("the waits", () => {
  test("grow exponentially under full jitter, to 8 s at most", async () => {
    vi.useFakeTimers();
    const random = vi.spyOn(Math, "random").mockReturnValue(0.999999);
    try {
      const delays: unknown[] = [];
      const client = world.client({
        fetch: () => Promise.reject(new TypeError("fetch failed")),
        timeout: Number.POSITIVE_INFINITY,
        maxRetries: 7,
        logger: { debug: () => {}, warn: (_, fields) => delays.push(fields.delay) },
      });
      const failing = rejection(client.listings.list());
      await vi.runAllTimersAsync();
      expect(await failing).toBeInstanceOf(ConnectionError);
      expect(delays).toEqual([500, 1000, 2000, 4000, 8000, 8000, 8000]);
      random.mockReturnValue(0);
      delays.length = 0;
      const hurried = rejection(client.listings.list());
      await vi.runAllTimersAsync();
      await hurried;
      expect(delays).toEqual([0, 0, 0, 0, 0, 0, 0]);
    } finally {
      random.mockRestore();
      vi.useRealTimers();
    }
  });

  test("answers that are tried again are read to their end, so that connections are used again", {
    timeout: 60_000,
  }, async () => {
    vi.spyOn(Math, "random").mockReturnValue(0.01);
    world.mischief.plan(...Array(5).fill(envelope(500, "INTERNAL_ERROR", {}, { padding: "x".repeat(1e5) })));
    const before = await world.mischief.openSockets();
    await world.client({ maxRetries: 5, timeout: 60_000 }).listings.list();
    expect(world.mischief.requests).toHaveLength(6);
    expect(await world.mischief.openSockets()).toBeLessThanOrEqual(before + 1);
  });
});
