import { expect, test } from "vitest";
import { repeat } from "../../server/outbox/repeat.js";

test("work is repeated until it is stopped, even after failures, and only the first failure in a row is reported", async () => {
  const stopping = new AbortController();
  const outcomes = [false, true, false, false, true, false, true];
  const failures: unknown[] = [];
  let runs = 0;
  await repeat(
    async () => {
      runs += 1;
      if (runs === outcomes.length) stopping.abort();
      if (!outcomes[runs - 1]) throw new Error(`run ${runs}`);
      return 1;
    },
    { signal: stopping.signal, retryMs: 1, onFailure: (error) => failures.push(error) },
  );
  expect(runs).toBe(outcomes.length);
  expect(failures.map(String)).toEqual(["Error: run 1", "Error: run 3", "Error: run 6"]);
});
