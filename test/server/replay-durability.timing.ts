import { expect, test } from "vitest";
import { openCoreWithSlowDisk } from "./core-on-cluster.js";

test("a replay that stores nothing does not wait for the disk", async () => {
  const { owner, delayMs, msOf } = await openCoreWithSlowDisk();
  const { form } = await owner.create(owner.body, "known");
  expect(await msOf(() => owner.create(owner.body, "new"))).toBeGreaterThan(delayMs);
  for (const key of [undefined, "known", "new"]) {
    const replay = async () => expect(await owner.create(owner.body, key)).toEqual({ form, replayed: true });
    // The fastest of some, for a busy machine.
    const durations: number[] = [];
    for (let n = 0; n < 10; n++) durations.push(await msOf(replay));
    expect(Math.min(...durations)).toBeLessThan(delayMs);
  }
});
