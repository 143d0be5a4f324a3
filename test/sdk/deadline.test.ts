import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { AbortError, ConnectionError, type Fetch, InternalError, TimeoutError } from "../../sdk/src/index.js";
import { errorEnvelope, slowBody, slowHeaders } from "./fault-proxy.js";
import { rejection, useGateway } from "./setup.js";

const context = await useGateway();
const unhandled = vi.fn();
beforeEach(() => void process.on("unhandledRejection", unhandled));
afterEach(async () => {
  await sleep(20);
  process.off("unhandledRejection", unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

const ignoreOutcome = [() => {}, () => {}] as const;
const AFTER_5_S = { "retry-after": "5" };

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
    expect((error as Error).message).toBe(`POST ${context.proxy.url}/v1/forms: no response within 1000 ms`);
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

  test.each([2 ** 40, Number.POSITIVE_INFINITY])(
    "a timeout of %d ms, longer than a timer can hold, does not fire early",
    async (timeout) => {
      context.proxy.injectNext(slowHeaders(50));
      expect((await context.client({ timeout }).listings.list()).items).toHaveLength(3);
    },
  );

  test.each<[string, Fetch]>([
    ["finished", async () => Response.json({ items: [] })],
    ["failed", async () => Response.json({}, { status: 404 })],
    ["aborted while it waits for headers", () => new Promise(() => {})],
    ["aborted while it waits to retry", async () => Response.json({}, { status: 429, headers: AFTER_5_S })],
  ])("a call that was %s leaves no timer behind", async (end, respond) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const controller = new AbortController();
    const fetch = vi.fn(respond);
    const client = context.client({ fetch, timeout: 60_000 });
    const call = client.listings.list({}, { signal: controller.signal }).then(...ignoreOutcome);
    await vi.waitFor(() => expect(fetch).toHaveBeenCalled());
    await new Promise(setImmediate);
    if (end.startsWith("aborted")) expect(vi.getTimerCount()).toBeGreaterThan(0);
    controller.abort();
    await call;
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });
});

describe("the caller's abort", () => {
  test("an abort before the call sends nothing", async () => {
    const reason = new Error("changed my mind");
    const options = { signal: AbortSignal.abort(reason) };
    const { forms } = context.client();
    for (const call of [forms.create(context.uniqueStay(), options), forms.list({}, options)])
      expect(await rejection(call)).toMatchObject({ name: "AbortError", cause: reason });
    expect(context.proxy.requests).toHaveLength(0);
  });

  test.each([
    ["while waiting for headers", slowHeaders(9_000), false],
    ["while reading the body", slowBody(9_000), true],
    ["while waiting to retry", errorEnvelope(429, "RATE_LIMITED", { "retry-after": "1" }), true],
  ])("an abort %s is an AbortError with the signal's reason, and nothing is retried", async (_, fault, hasHeaders) => {
    context.proxy.injectAlways(fault);
    const controller = new AbortController();
    const fetch = vi.fn(globalThis.fetch as Fetch);
    const options = { signal: controller.signal };
    const call = rejection(context.client({ fetch }).forms.create(context.uniqueStay(), options));
    await expect.poll(() => context.proxy.requests.length).toBe(1);
    if (hasHeaders) await fetch.mock.results[0]?.value;
    await new Promise(setImmediate);
    controller.abort();
    expect(await call).toBeInstanceOf(AbortError);
    expect(await call).toMatchObject({ cause: controller.signal.reason });
    // Longer than the delay before a retry.
    await sleep(1_200);
    expect(context.proxy.requests).toHaveLength(1);
  });
});
