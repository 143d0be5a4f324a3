import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  AbortError,
  ConnectionError,
  GuestFormsError,
  InternalError,
  TimeoutError,
} from "../../sdk/src/index.js";
import { errorEnvelope, resetBeforeProcessing, slowBody, slowHeaders } from "./fault-proxy.js";
import { rejection, useFakeService } from "./setup.js";

const context = useFakeService();
const unhandled = vi.fn();
beforeEach(() => void process.on("unhandledRejection", unhandled));
afterEach(async () => {
  await sleep(20);
  process.off("unhandledRejection", unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

/** Number of pending timers of this process. */
const countTimers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;

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

  test("a finished call leaves no timer behind", async () => {
    const before = countTimers();
    await context.client({ timeout: 60_000 }).listings.list();
    await rejection(context.client({ timeout: 60_000 }).forms.retrieve("none"));
    expect(countTimers()).toBeLessThanOrEqual(before);
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
    ["while waiting for headers", slowHeaders(9_000)],
    ["while reading the body", slowBody(9_000)],
    ["while waiting to retry", errorEnvelope(429, "RATE_LIMITED", { "retry-after": "5" })],
  ])("an abort %s is an AbortError with the signal's reason, and nothing is retried", async (_, fault) => {
    context.proxy.injectAlways(fault);
    const controller = new AbortController();
    const before = countTimers();
    const call = rejection(
      context.client().forms.create(context.uniqueStay(), { signal: controller.signal }),
    );
    await expect.poll(() => context.proxy.requests).toHaveLength(1);
    await sleep(200);
    controller.abort();
    const error = await call;
    expect(error).toBeInstanceOf(AbortError);
    expect((error as Error).cause).toBe(controller.signal.reason);
    expect(countTimers()).toBeLessThanOrEqual(before + 1);
    await sleep(600);
    expect(context.proxy.requests).toHaveLength(1);
  });

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
