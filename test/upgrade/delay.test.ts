import { expect, test } from "vitest";
import { findDelay, slowestByWindow } from "./delay.js";

test.each([
  ["a quiet machine", [60, 420, 80, 70], [50, 60, 70, 216]],
  ["a busy machine", [1_405, 300, 900, 700], [250, 1_200, 300, 800]],
  ["a busy machine that stalls a single time", [2_000, 300, 900, 700], [250, 1_200, 300, 800]],
])("no delay by the upgrade is found on %s", (_, upgrade, quiet) =>
  expect(findDelay({ upgrade, quiet })).toBeUndefined(),
);

test.each([
  ["a single stall", "maximum", [60, 600, 80, 70], [50, 60, 70, 90]],
  ["a single stall on a busy machine", "maximum", [300, 2_500, 900, 700], [250, 1_200, 300, 800]],
  ["a delay of all requests, with one stall before", "median", [700, 650, 640, 700], [50, 60, 70, 1_200]],
  ["no samples", "maximum", [], []],
])("a delay by the upgrade is found: %s", (_, statistic, upgrade, quiet) =>
  expect(findDelay({ upgrade, quiet })).toContain(statistic),
);

test("a window has the slowest request that was sent in it, and the last one what remains", () => {
  const samples = [
    [0, 90],
    [10, 15],
    [19, 40],
    [20, 22],
    [44, 50],
    [45, 99],
  ].map(([sentAt = 0, receivedAt = 0]) => ({ sentAt, receivedAt }));
  expect(slowestByWindow(samples, { begin: 10, end: 45, windowMs: 10 })).toEqual([21, 2, 6]);
  expect(slowestByWindow(samples, { begin: 45, end: 46, windowMs: 10 })).toEqual([54]);
});
