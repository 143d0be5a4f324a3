import { expect, test } from "vitest";
import { judgeMemory, type MemorySample } from "./soak-memory.js";

const HEAP_BYTES = 50 * 2 ** 20;
const RSS_BYTES = 230 * 2 ** 20;

/** A sample every 2 s; `growth` is added to the heap or to the resident memory. Requests in flight add noise. */
const samplesOf = (
  minutes: number,
  growth: (seconds: number) => number,
  field: "heapBytes" | "rssBytes" = "heapBytes",
): MemorySample[] =>
  Array.from({ length: minutes * 30 }, (_, index) => {
    const seconds = 2 * index + 1;
    const sample = { seconds, heapBytes: HEAP_BYTES + (index % 7) * 300_000, rssBytes: RSS_BYTES };
    return { ...sample, [field]: sample[field] + growth(seconds) };
  });

const BYTES_PER_SECOND = 500 * 50;

test.each<[string, MemorySample[], string]>([
  ["constant memory in use is steady", samplesOf(3, () => 0), "steady"],
  ["growth in the warm-up is steady", samplesOf(3, (at) => Math.min(at, 58) * 100_000), "steady"],
  ["one burst is steady", samplesOf(10, (at) => (at > 200 ? 5e6 : 0)), "steady"],
  [
    "500 bytes per request, at 50 requests per second, is a leak after 3 minutes",
    samplesOf(3, (at) => at * BYTES_PER_SECOND),
    "leaks",
  ],
  [
    "memory outside the heap that grows by 20 MB per minute is a leak",
    samplesOf(3, (at) => (at * 20 * 2 ** 20) / 60, "rssBytes"),
    "leaks",
  ],
  ["memory that doubles at once and stays is a leak", samplesOf(10, (at) => (at > 200 ? HEAP_BYTES : 0)), "leaks"],
  [
    "a quarter without samples is too short to judge",
    samplesOf(3, () => 0).filter(({ seconds }) => seconds < 90 || seconds > 130),
    "too short to judge",
  ],
  ["nothing is too short to judge", [], "too short to judge"],
])("the memory check of the soak: %s", (_, samples, verdict) => {
  expect(judgeMemory(samples).verdict).toBe(verdict);
});
