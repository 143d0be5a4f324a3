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

/** In MB, the minimum memory of each 30 s after the first minute in soaks without a leak. */
const MEASURED = {
  workerRss: [112, 116, 90, 91, 96, 101, 104, 105, 106, 105, 107, 107, 108, 90, 98, 102, 94, 91, 91, 97, 93, 98],
  workerRssRising: [89.1, 92.7, 96.7, 104.4],
  gatewayHeap: [
    48.55, 48.83, 49.61, 49.55, 50.03, 49.9, 50.52, 49.49, 49.82, 49.85, 50.61, 50.4, 50.25, 50.46, 50.7, 50.57, 51.29,
    51.41, 50.92, 51.51, 51.35, 52.93,
  ],
};

const samplesOfMinima = (minimaMb: number[], field: "heapBytes" | "rssBytes"): MemorySample[] =>
  samplesOf(1 + minimaMb.length / 2, () => 0).map((sample) => {
    const minimum = minimaMb[Math.floor((sample.seconds - 61) / 30)] ?? 0;
    return { ...sample, [field]: minimum * 2 ** 20 };
  });

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
    "resident memory in the rising part of a sawtooth is steady",
    samplesOfMinima(MEASURED.workerRssRising, "rssBytes"),
    "steady",
  ],
  ["resident memory in a sawtooth is steady", samplesOfMinima(MEASURED.workerRss, "rssBytes"), "steady"],
  [
    "the heap of a gateway whose growth by optimized code slows down is steady",
    samplesOfMinima(MEASURED.gatewayHeap, "heapBytes"),
    "steady",
  ],
  [
    "200 bytes per request, at 50 requests per second, is a leak after 12 minutes",
    samplesOf(12, (at) => at * 200 * 50),
    "leaks",
  ],
  [
    "memory outside the heap that grows by 25 MB per minute is a leak after 3 minutes",
    samplesOf(3, (at) => (at * 25 * 2 ** 20) / 60, "rssBytes"),
    "leaks",
  ],
  [
    "memory outside the heap that grows by 5 MB per minute is a leak after 12 minutes",
    samplesOf(12, (at) => (at * 5 * 2 ** 20) / 60, "rssBytes"),
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
