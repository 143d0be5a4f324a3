import { AsyncLocalStorage } from "node:async_hooks";
import { expect, onTestFinished, test } from "vitest";
import { Turns } from "../../gateway/http/turns.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { countValues } from "../support/statistics.js";
import { startHolderGateway } from "./holder-gateway.js";

const MAX_WAIT_MS = 50;
const settings = { DATABASE_CONNECT_TIMEOUT_MS: 3 * MAX_WAIT_MS };

const nextTurn = () => new Promise(setImmediate);

function block(ms: number): void {
  const began = performance.now();
  while (performance.now() - began < ms);
}

/** Turns, and what has begun in them since it was last read. */
function recordTurns() {
  const turns = new Turns(settings);
  const begun: string[] = [];
  const arrive = (...keys: string[]) => {
    for (const key of keys) turns.take(key, (isLate) => begun.push(isLate ? `late ${key}` : key));
  };
  const read = () => begun.splice(0);
  return { turns, arrive, read };
}

test("the first request of each key begins at once, the others one per turn of the event loop, one key after the other", async () => {
  const { turns, arrive, read } = recordTurns();
  arrive("a", "a", "a", "a", "b", "b");
  expect([read(), turns.waiting]).toEqual([["a", "b"], 4]);
  for (const expected of [["a"], ["b"], ["a"]]) {
    await nextTurn();
    expect(read()).toEqual(expected);
    arrive("another");
    expect(read()).toEqual(["another"]);
  }
  await nextTurn();
  expect([read(), turns.waiting]).toEqual([["a"], 0]);
  await nextTurn();
  arrive("a");
  expect(read()).toEqual(["a"]);
});

test("those that have waited too long are rejected, 16 per turn at most, before the next begins", async () => {
  const { arrive, read } = recordTurns();
  arrive(...Array<string>(22).fill("a"));
  block(MAX_WAIT_MS + 1);
  arrive("a");
  for (const expected of [{ a: 1 }, { "late a": 16 }, { "late a": 5, a: 1 }, {}]) {
    const counts: Record<string, number> = {};
    for (const one of read()) counts[one] = (counts[one] ?? 0) + 1;
    expect(counts).toEqual(expected);
    await nextTurn();
  }
});

test("requests that wait keep their own async context, and so their own trace", async () => {
  const { turns } = recordTurns();
  const context = new AsyncLocalStorage<number>();
  const seen: unknown[] = [];
  for (const n of [1, 2, 3]) context.run(n, () => turns.take("a", () => seen.push(context.getStore())));
  await expect.poll(() => seen).toEqual([1, 2, 3]);
});

test("a request that is late gets 503, unless its key is unknown or over its rate limit", async () => {
  const limit = 20;
  const { gateway, holder } = await startHolderGateway({ DATABASE_CONNECT_TIMEOUT_MS: 900, RATE_LIMIT_MAX: limit });
  /** Sends requests that arrive together, on one connection. */
  const countStatuses = async (key: string) => {
    const wire = await gateway.openConnection();
    wire.write(`GET /v1/forms HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`.repeat(2 * limit));
    const statuses: number[] = [];
    for (let n = 0; n < 2 * limit; n++) {
      const { status, headers } = await wire.readResponse();
      statuses.push(status);
      if (status === 503) expect(headers.ratelimit).toContain(`"${limit}-in-1min"`);
    }
    wire.close();
    return countValues(statuses);
  };
  let timer: NodeJS.Immediate;
  const slowTurn = () => {
    block(30);
    timer = setImmediate(slowTurn);
  };
  slowTurn();
  onTestFinished(() => clearImmediate(timer));
  const { 200: served = 0, 503: late = 0, ...others } = await countStatuses(holder.key);
  expect([served + late, others]).toEqual([limit, { 429: limit }]);
  expect(Math.min(served, late)).toBeGreaterThan(0);
  expect(await countStatuses(generateKey("READ_ONLY"))).toEqual({ 401: 2 * limit });
});
