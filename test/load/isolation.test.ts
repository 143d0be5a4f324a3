import { expect, test, vi } from "vitest";
import { expectFast, type Seen } from "../support/tenants.js";

/** Judges these runs, with 100 ms for a list. Returns how many ran, and the error. */
async function judge(...runs: [livez: number, list: number][]) {
  const results = runs.map(([livez, list]): Seen => ({ p99Ms: { list, livez } }));
  const run = vi.fn(async () => results[run.mock.calls.length - 1] as Seen);
  const error = await expectFast(100, run).catch(({ message }: Error) => message);
  return { runs: run.mock.calls.length, error };
}

test("on a quiet machine the first run is judged, by 100 ms whatever /livez takes", async () => {
  expect(await judge([19, 99])).toEqual({ runs: 1, error: undefined });
  expect(await judge([19, 101], [19, 99])).toEqual({ runs: 1, error: expect.stringContaining("p99 of list") });
});

test("a run is repeated if /livez takes 20 ms, and fails as not judged after three", async () => {
  expect(await judge([20, 30], [20, 300], [19, 99])).toEqual({ runs: 3, error: undefined });
  expect(await judge([20, 30], [20, 300], [20, 30])).toEqual({ runs: 3, error: expect.stringMatching(/^Not judged/) });
});
