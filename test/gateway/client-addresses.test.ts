import type { Options } from "express-rate-limit";
import { expect, onTestFinished, test, vi } from "vitest";
import { LocalStore } from "../../gateway/http/rate-limit.js";

const MINUTE_MS = 60_000;

test("a client's address is forgotten at most two minutes after its last bad key", async () => {
  onTestFinished(() => {
    vi.useRealTimers();
  });
  vi.useFakeTimers();
  const store = new LocalStore();
  onTestFinished(() => store.shutdown());
  store.init({ windowMs: MINUTE_MS } as Options);
  const isStored = () => store.current.has("192.0.2.1") || store.previous.has("192.0.2.1");
  // The longest case: a window of the store has just begun.
  vi.advanceTimersByTime(MINUTE_MS + 1);
  await store.increment("192.0.2.1");
  vi.advanceTimersByTime(MINUTE_MS);
  expect(isStored()).toBe(true);
  vi.advanceTimersByTime(MINUTE_MS);
  expect(isStored()).toBe(false);
});
