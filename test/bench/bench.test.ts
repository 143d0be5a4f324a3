import { expect, test } from "vitest";
import { findExceeded, limitsOf } from "./compare.js";
import { aimOf } from "./outbox.js";

test("CPU time relative to L+ may be 1.3 times what was recorded, and must be recorded and measured", () => {
  const limits = limitsOf("create", { ratios: { create: { cpu: 2, postgresCpu: 1 } } });
  expect(findExceeded({ cpu: 2.6, postgresCpu: 1.3 }, limits)).toEqual([]);
  expect(findExceeded({ cpu: 2.61, postgresCpu: 1.3 }, limits)).toEqual(["cpu > 2.60"]);
  expect(findExceeded({ cpu: 2.6 }, limits)).toEqual(["postgresCpu > 1.30"]);
  expect(findExceeded({ cpu: 1, postgresCpu: 1 }, limitsOf("new", { ratios: {} }))).toHaveLength(2);
});

test("workers send at least what the aims say, and two send 0.9 times as much as one", () => {
  const deliveries = { table: "webhook_deliveries", concurrency: 2, workers: 1, delayMs: 5 } as const;
  expect(aimOf(deliveries, Number.NaN)).toBe(500);
  expect(aimOf({ ...deliveries, workers: 2, delayMs: 20 }, 100)).toBe(350);
  expect(aimOf({ ...deliveries, workers: 2, delayMs: 20 }, 1_000)).toBe(900);
  expect(aimOf({ ...deliveries, table: "emails" }, Number.NaN)).toBe(0);
});
