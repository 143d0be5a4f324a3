import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  AbortError,
  ConnectionError,
  GuestFormsError,
  InternalError,
  TimeoutError,
} from "../../sdk/src/index.js";
import { envelope, resetBefore, slowBody, slowHeaders } from "./mischief.js";
import { rejection, useWorld } from "./setup.js";

const world = useWorld();
const unhandled = vi.fn();
beforeEach(() => void process.on("unhandledRejection", unhandled));
afterEach(async () => {
  await sleep(20);
  process.off("unhandledRejection", unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

/** Timers of this process that are still to fire. */
const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;

describe("the deadline", () => {
  test.each([
    ["slow headers", slowHeaders(9_000)],
    ["a slow body", slowBody(9_000)],
  ])("ends %s as TimeoutError", async (_, fault) => {
    world.mischief.always(fault);
    const started = Date.now();
    const error = await rejection(world.client({ timeout: 1_000 }).forms.create(world.stay()));
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error).toBeInstanceOf(ConnectionError);
    expect((error as Error).message).toBe("POST /v1/forms: no response within 1000 ms");
    expect(Date.now() - started).toBeLessThan(5_000);
    expect(world.mischief.requests).toHaveLength(1);
  });

  test("is one for all tries, and the error keeps what failed before", async () => {
    world.mischief.plan(envelope(500, "INTERNAL_ERROR"), slowHeaders(9_000));
    const started = Date.now();
    const error = await rejection(world.client().listings.list({}, { timeout: 3_000 }));
    expect(error).toBeInstanceOf(TimeoutError);
    expect((error as Error).cause).toBeInstanceOf(InternalError);
    expect(Date.now() - started).toBeLessThan(7_000);
  });

  test("holds against a fetch that knows nothing of signals", async () => {
    const fetch = () => new Promise<never>(() => {});
    expect(await rejection(world.client({ fetch, timeout: 50 }).listings.list())).toBeInstanceOf(
      TimeoutError,
    );
  });

  test.each([2 ** 40, Number.POSITIVE_INFINITY])(
    "may be longer than a timer can hold: %d",
    async (timeout) => {
      world.mischief.plan(slowHeaders(50));
      expect((await world.client({ timeout }).listings.list()).items).toHaveLength(3);
    },
  );

  test("leaves no timer behind", async () => {
    const before = timers();
    await world.client({ timeout: 60_000 }).listings.list();
    await rejection(world.client({ timeout: 60_000 }).forms.retrieve("none"));
    expect(timers()).toBeLessThanOrEqual(before);
  });
});

describe("the caller's abort", () => {
  test("before the call: nothing is sent", async () => {
    const reason = new Error("changed my mind");
    const options = { signal: AbortSignal.abort(reason) };
    for (const call of [
      world.client().forms.create(world.stay(), options),
      world.client().forms.list({}, options),
    ]) {
      const error = await rejection(call);
      expect(error).toBeInstanceOf(AbortError);
      expect((error as Error).cause).toBe(reason);
    }
    expect(world.mischief.requests).toHaveLength(0);
  });

  test("by AbortSignal.timeout() is an AbortError, not the SDK's TimeoutError", async () => {
    world.mischief.always(slowHeaders(9_000));
    const signal = AbortSignal.timeout(100);
    const error = await rejection(world.client().forms.retrieve("f1", { signal }));
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
    ["while waiting to try again", envelope(429, "RATE_LIMITED", { "retry-after": "5" })],
  ])("%s: an AbortError with the signal's reason, and no further try", async (_, fault) => {
    world.mischief.always(fault);
    const controller = new AbortController();
    const before = timers();
    const call = rejection(world.client().forms.create(world.stay(), { signal: controller.signal }));
    await expect.poll(() => world.mischief.requests).toHaveLength(1);
    await sleep(200);
    controller.abort();
    const error = await call;
    expect(error).toBeInstanceOf(AbortError);
    expect((error as Error).cause).toBe(controller.signal.reason);
    expect(timers()).toBeLessThanOrEqual(before + 1);
    await sleep(600);
    expect(world.mischief.requests).toHaveLength(1);
  });

  test("stops a loop over pages", async () => {
    const controller = new AbortController();
    const seen: string[] = [];
    const loop = async () => {
      for await (const item of world.client().listings.list({ limit: 1 }, { signal: controller.signal })) {
        seen.push(item.id);
        controller.abort(new Error("enough"));
      }
    };
    expect(await rejection(loop())).toMatchObject({ name: "AbortError", cause: { message: "enough" } });
    expect(seen).toHaveLength(1);
    expect(world.mischief.requests).toHaveLength(1);
  });

  test("leaves no listener on a signal that outlives the call", async () => {
    const { signal } = new AbortController();
    const add = vi.spyOn(signal, "addEventListener");
    const remove = vi.spyOn(signal, "removeEventListener");
    world.mischief.plan(resetBefore);
    await world.client().listings.list({}, { signal });
    expect(add).toHaveBeenCalledTimes(1);
    expect(remove).toHaveBeenCalledWith(...(add.mock.calls[0] ?? []));
  });

  test("a call that is aborted by nobody's awaiting is only its own promise's rejection", async () => {
    const call = world.client().forms.create(world.stay()).withResponse();
    const controller = new AbortController();
    const list = world.client().forms.list({}, { signal: controller.signal });
    controller.abort();
    await sleep(50);
    await expect(list.toArray()).rejects.toThrow();
    await call;
  });
});
