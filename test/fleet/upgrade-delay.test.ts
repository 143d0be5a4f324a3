import { expect, test } from "vitest";
import { findDelay } from "./upgrade-delay.js";

const find = (upgrade: number[], quiet: number[]) => {
  const samplesOf = (durations: number[]) => durations.map((ms) => ({ sentAt: 7, receivedAt: 7 + ms }));
  return findDelay({ upgrade: samplesOf(upgrade), quiet: samplesOf(quiet) });
};

test.each([
  ["a quiet machine", [60, 420, 80, 70], [50, 60, 70, 216]],
  ["a busy machine", [1_405, 300, 900, 700], [250, 1_200, 300, 800]],
  ["a busy machine that stalls a single time", [2_000, 300, 900, 700], [250, 1_200, 300, 800]],
])("no delay by the upgrade is found on %s", (_, upgrade, quiet) => expect(find(upgrade, quiet)).toBeUndefined());

test.each([
  ["a single stall", "maximum", [...Array(400).fill(60), 600], Array(400).fill(70)],
  ["a delay of all requests, with one stall before", "median", [700, 650, 640, 700], [50, 60, 70, 1_200]],
  ["no samples", "median", [], []],
])("a delay by the upgrade is found: %s", (_, name, upgrade, quiet) => expect(find(upgrade, quiet)).toContain(name));
