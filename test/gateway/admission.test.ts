import { AsyncLocalStorage } from "node:async_hooks";
import { expect, onTestFinished, test, vi } from "vitest";
import { Admission } from "../../gateway/http/admission.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { RawConnection } from "../support/raw-connection.js";
import { countValues } from "../support/statistics.js";
import { startHolderGateway } from "./holder-gateway.js";

const MAX_WAIT_MS = 50;
const settings = { DATABASE_CONNECT_TIMEOUT_MS: 3 * MAX_WAIT_MS };

const nextIteration = () => new Promise(setImmediate);

function block(ms: number): void {
  const began = performance.now();
  while (performance.now() - began < ms);
}

/** An admission, and what has begun since it was last read, by a clock on which only beginning a request takes time. */
function recordAdmission({ beginMs = 0.3 } = {}) {
  let now = 1_000;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now);
  onTestFinished(() => clock.mockRestore());
  const wait = (ms: number) => {
    now += ms;
  };
  const admission = new Admission(settings);
  const begun: string[] = [];
  const arrive = (...keys: string[]) => {
    for (const key of keys) {
      admission.take(key, (isExcess) => {
        begun.push(isExcess ? `rejected ${key}` : key);
        wait(beginMs);
      });
    }
  };
  const read = () => begun.splice(0);
  return { admission, arrive, read, wait };
}

test("requests that take less time to begin do so together, for 0.25 ms per iteration, one key after the other", async () => {
  const { arrive, read } = recordAdmission({ beginMs: 0.1 });
  arrive(..."a".repeat(6), ..."bbb");
  const expected = ["ab", "aba", "baa", "a"];
  for (const begun of expected) {
    expect(read().join("")).toBe(begun);
    await nextIteration();
  }
});

test("the first request of each key begins at once, the others one per iteration of the event loop if each takes 0.25 ms, one key after the other", async () => {
  const { admission, arrive, read } = recordAdmission();
  arrive("a", "a", "a", "a", "b", "b");
  expect([read(), admission.waiting]).toEqual([["a", "b"], 4]);
  for (const expected of [["a"], ["b"], ["a"]]) {
    await nextIteration();
    expect(read()).toEqual(expected);
    arrive("another");
    expect(read()).toEqual(["another"]);
  }
  await nextIteration();
  expect([read(), admission.waiting]).toEqual([["a"], 0]);
  await nextIteration();
  arrive("a");
  expect(read()).toEqual(["a"]);
});

test("those that have waited too long are rejected, 16 per iteration at most, while the newest begins", async () => {
  const { arrive, read, wait } = recordAdmission();
  arrive(...Array<string>(22).fill("a"));
  wait(MAX_WAIT_MS + 1);
  arrive("a");
  for (const expected of [{ a: 1 }, { "rejected a": 16, a: 1 }, { "rejected a": 5 }, {}]) {
    const counts: Record<string, number> = {};
    for (const one of read()) counts[one] = (counts[one] ?? 0) + 1;
    expect(counts).toEqual(expected);
    await nextIteration();
  }
});

test("if all have waited too long, none begins", async () => {
  const { arrive, read, wait } = recordAdmission();
  arrive(...Array<string>(20).fill("a"));
  expect(read()).toEqual(["a"]);
  wait(MAX_WAIT_MS + 1);
  await nextIteration();
  await nextIteration();
  expect(read()).toEqual(Array<string>(19).fill("rejected a"));
});

test("while 500 requests of a key wait, its further ones are rejected in the next iteration, 16 per iteration, and those of other keys begin", async () => {
  const { admission, arrive, read } = recordAdmission();
  arrive(...Array<string>(519).fill("a"), "b");
  expect([read(), admission.waiting]).toEqual([["a", "b"], 518]);
  await nextIteration();
  arrive("c");
  expect([countValues(read()), admission.waiting]).toEqual([{ "rejected a": 16, a: 1, c: 1 }, 501]);
  await nextIteration();
  expect(countValues(read())).toEqual({ "rejected a": 2, a: 1 });
});

test("those that wait to be rejected are, also when no other request waits any more", async () => {
  const { admission, arrive, read } = recordAdmission({ beginMs: 0.001 });
  arrive(...Array<string>(1_000).fill("a"));
  for (let iteration = 0; iteration < 40; iteration++) await nextIteration();
  expect([countValues(read()), admission.waiting]).toEqual([{ a: 501, "rejected a": 499 }, 0]);
});

test("while 5,000 requests wait to be rejected, further ones are rejected at once", () => {
  const { arrive, read } = recordAdmission();
  arrive(...Array<string>(5_503).fill("a"), "b");
  expect(countValues(read())).toEqual({ a: 1, "rejected a": 2, b: 1 });
});

test("requests that wait keep their own async context, and so their own trace", async () => {
  const { admission } = recordAdmission();
  const context = new AsyncLocalStorage<number>();
  const seen: unknown[] = [];
  for (const n of [1, 2, 3]) context.run(n, () => admission.take("a", () => seen.push(context.getStore())));
  await expect.poll(() => seen).toEqual([1, 2, 3]);
});

/** Sends a request `perConnection` times on each of new connections, all at the same time. Returns how many got each status. */
async function pipeline(request: string, connections: Promise<RawConnection>[], perConnection: number) {
  const wires = await Promise.all(connections);
  for (const wire of wires) wire.write(request.repeat(perConnection));
  const statuses: number[] = [];
  for (const wire of wires) {
    for (let n = 0; n < perConnection; n++) statuses.push((await wire.readResponse()).status);
    wire.close();
  }
  return countValues(statuses);
}

/** Without a key, which begins at once and counts against no limit. */
const HEALTH_CHECK = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";

/** For an unknown path, which counts against the rate limit, and needs no query but that of the key. */
const requestOf = (key: string) => `GET /v1/nothing HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`;

test("a request that arrives while 500 of its key wait gets 503 at once, and does not count against the rate limit", async () => {
  const limit = 1_000;
  const { gateway, holder } = await startHolderGateway({ DATABASE_CONNECT_TIMEOUT_MS: 60_000, RATE_LIMIT_MAX: limit });
  // Not checked, which would take longer than serving them.
  const connections = Array.from({ length: 24 }, async () => {
    const wire = await RawConnection.open(gateway.port, () => {});
    // The gateway accepts one connection per iteration of the event loop. This one is accepted once it is answered.
    wire.write(HEALTH_CHECK);
    await wire.readResponse();
    return wire;
  });
  const { 404: served = 0, 503: rejected = 0, ...others } = await pipeline(requestOf(holder.key), connections, 30);
  expect([served + rejected, others]).toEqual([720, {}]);
  expect(served).toBeGreaterThan(500);
  expect(rejected).toBeGreaterThan(0);
  const { headers } = await gateway.request({ path: "/v1/forms", key: holder.key });
  expect(headers.ratelimit).toContain(`; r=${limit - served - 1};`);
});

test("a request that is late gets 503 and does not count against the rate limit, unless its key is unknown", async () => {
  const count = 40;
  const limit = 30;
  const { gateway, holder } = await startHolderGateway({ DATABASE_CONNECT_TIMEOUT_MS: 900, RATE_LIMIT_MAX: limit });
  const countStatuses = (key: string) =>
    pipeline(requestOf(key), [gateway.openConnection(), gateway.openConnection()], count / 2);
  let timer: NodeJS.Immediate;
  const slowIteration = () => {
    block(30);
    timer = setImmediate(slowIteration);
  };
  slowIteration();
  onTestFinished(() => clearImmediate(timer));
  const { 404: served = 0, 503: late = 0, ...others } = await countStatuses(holder.key);
  expect([served + late, others]).toEqual([count, {}]);
  expect(Math.min(served, late)).toBeGreaterThan(0);
  const { headers } = await gateway.request({ path: "/v1/forms", key: holder.key });
  expect(headers.ratelimit).toContain(`; r=${limit - served - 1};`);
  expect(await countStatuses(generateKey("READ_ONLY"))).toEqual({ 401: count });
});
