import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  AbortError,
  ConnectionError,
  type Fetch,
  GuestFormsError,
  InternalError,
  TimeoutError,
} from "../../sdk/src/index.js";
import { errorEnvelope, resetBeforeProcessing, slowBody, slowHeaders } from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = useGateway();
const unhandled = vi.fn();
beforeEach(() => void process.on("unhandledRejection", unhandled));
afterEach(async () => {
  await sleep(20);
  process.off("unhandledRejection", unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

describe("the deadline", () => {
  test.each([
    ["slow headers", slowHeaders(9_000)],
    ["a slow body", slowBody(9_000)],
  ])("%s past the timeout is a TimeoutError", async (_, fault) => {
    context.proxy.injectAlways(fault);
    const started = Date.now();
    const error = await rejection(context.client({ timeout: 1_000 }).forms.create(context.uniqueStay()));
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error).toBeInstanceOf(ConnectionError);
    expect((error as Error).message).toBe("POST /v1/forms: no response within 1000 ms");
    expect(Date.now() - started).toBeLessThan(5_000);
    expect(context.proxy.requests).toHaveLength(1);
  });

  test("the timeout covers all attempts, and the error's cause is the last failed attempt", async () => {
    context.proxy.injectNext(errorEnvelope(500, "INTERNAL_ERROR"), slowHeaders(9_000));
    const started = Date.now();
    const error = await rejection(context.client().listings.list({}, { timeout: 3_000 }));
    expect(error).toBeInstanceOf(TimeoutError);
    expect((error as Error).cause).toBeInstanceOf(InternalError);
    expect(Date.now() - started).toBeLessThan(7_000);
  });

  test("the timeout ends a fetch that ignores its signal", async () => {
    const fetch = () => new Promise<never>(() => {});
    expect(await rejection(context.client({ fetch, timeout: 50 }).listings.list())).toBeInstanceOf(
      TimeoutError,
    );
  });

  test.each([2 ** 40, Number.POSITIVE_INFINITY])(
    "a timeout of %d ms, longer than a timer can hold, does not fire early",
    async (timeout) => {
      context.proxy.injectNext(slowHeaders(50));
      expect((await context.client({ timeout }).listings.list()).items).toHaveLength(3);
    },
  );

  test.each<[string, Fetch, "aborted"?]>([
    ["a finished call", async () => Response.json({ items: [] })],
    ["a failed call", async () => Response.json({}, { status: 404 })],
    ["a call aborted while it waits for headers", () => new Promise(() => {}), "aborted"],
    [
      "a call aborted while it waits to retry",
      async () => Response.json({}, { status: 429, headers: { "retry-after": "5" } }),
      "aborted",
    ],
  ])("%s leaves no timer behind", async (_, respond, end) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const controller = new AbortController();
      const fetch = vi.fn(respond);
      const client = context.client({ fetch, timeout: 60_000 });
      const call = client.listings.list({}, { signal: controller.signal }).then(
        () => {},
        () => {},
      );
      await vi.waitFor(() => expect(fetch).toHaveBeenCalled());
      await new Promise(setImmediate);
      if (end === "aborted") expect(vi.getTimerCount()).toBeGreaterThan(0);
      controller.abort();
      await call;
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("the caller's abort", () => {
  test("an abort before the call sends nothing", async () => {
    const reason = new Error("changed my mind");
    const options = { signal: AbortSignal.abort(reason) };
    for (const call of [
      context.client().forms.create(context.uniqueStay(), options),
      context.client().forms.list({}, options),
    ]) {
      const error = await rejection(call);
      expect(error).toBeInstanceOf(AbortError);
      expect((error as Error).cause).toBe(reason);
    }
    expect(context.proxy.requests).toHaveLength(0);
  });

  test("AbortSignal.timeout() causes an AbortError, not the SDK's TimeoutError", async () => {
    context.proxy.injectAlways(slowHeaders(9_000));
    const signal = AbortSignal.timeout(100);
    const error = await rejection(context.client().forms.retrieve("f1", { signal }));
    expect(error).toBeInstanceOf(AbortError);
    expect(error).toBeInstanceOf(GuestFormsError);
    expect(error).not.toBeInstanceOf(TimeoutError);
    expect(error).toMatchObject({
      name: "AbortError",
      message: "GET /v1/forms/f1: aborted by the signal",
      cause: { name: "TimeoutError" },
    });
  });

  test.each([
    ["while waiting for headers", slowHeaders(9_000), false],
    ["while reading the body", slowBody(9_000), true],
    ["while waiting to retry", errorEnvelope(429, "RATE_LIMITED", { "retry-after": "1" }), true],
  ])(
    "an abort %s is an AbortError with the signal's reason, and nothing is retried",
    async (_, fault, hasHeaders) => {
      context.proxy.injectAlways(fault);
      const controller = new AbortController();
      let isAnswered = false;
      const fetch: Fetch = async (url, init) => {
        const response = await globalThis.fetch(url, init);
        isAnswered = true;
        return response;
      };
      const options = { signal: controller.signal };
      const call = rejection(context.client({ fetch }).forms.create(context.uniqueStay(), options));
      await expect.poll(() => (hasHeaders ? isAnswered : context.proxy.requests.length === 1)).toBe(true);
      await new Promise(setImmediate);
      controller.abort();
      const error = await call;
      expect(error).toBeInstanceOf(AbortError);
      expect((error as Error).cause).toBe(controller.signal.reason);
      // Longer than the delay before a retry.
      await sleep(1_200);
      expect(context.proxy.requests).toHaveLength(1);
    },
  );

  test("an abort stops iteration over pages", async () => {
    const controller = new AbortController();
    const seen: string[] = [];
    const loop = async () => {
      for await (const item of context.client().listings.list({ limit: 1 }, { signal: controller.signal })) {
        seen.push(item.id);
        controller.abort(new Error("enough"));
      }
    };
    expect(await rejection(loop())).toMatchObject({ name: "AbortError", cause: { message: "enough" } });
    expect(seen).toHaveLength(1);
    expect(context.proxy.requests).toHaveLength(1);
  });

  test("a finished call leaves no listener on the signal", async () => {
    const { signal } = new AbortController();
    const add = vi.spyOn(signal, "addEventListener");
    const remove = vi.spyOn(signal, "removeEventListener");
    context.proxy.injectNext(resetBeforeProcessing);
    await context.client().listings.list({}, { signal });
    expect(add).toHaveBeenCalledTimes(1);
    expect(remove).toHaveBeenCalledWith(...(add.mock.calls[0] ?? []));
  });

  test("an aborted call that is not awaited yet causes no unhandled rejection", async () => {
    const call = context.client().forms.create(context.uniqueStay()).withResponse();
    const controller = new AbortController();
    const list = context.client().forms.list({}, { signal: controller.signal });
    controller.abort();
    await sleep(50);
    await expect(list.toArray()).rejects.toThrow();
    await call;
  });
});
