import { expect, onTestFinished, test } from "vitest";
import { openReadiness } from "../../gateway/runtime/readiness.js";
import { readSettings } from "../../server/config.js";
import { createTestDatabase } from "../support/database.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { startHolderGateway } from "./holder-gateway.js";

test("all checks that arrive within 500 ms after an examination share its one query", async () => {
  const { url } = await createTestDatabase();
  const readiness = openReadiness(readSettings({ DATABASE_URL: url }), 2_000, { info() {}, warn() {}, error() {} });
  onTestFinished(() => readiness.close());
  const began = performance.now();
  const first = readiness.examine();
  expect(await first).toEqual({});
  await expect
    .poll(
      () => {
        const isShared = readiness.examine() === first;
        // Read afterwards: a pause of this process does not make the check too late.
        if (performance.now() - began < 490) expect(isShared).toBe(true);
        return isShared;
      },
      { interval: 10 },
    )
    .toBe(false);
  const seen = new Set(Array.from({ length: 100 }, () => readiness.examine()));
  expect(seen.size).toBe(1);
});

test("/readyz returns 200 while requests that wait for a lock use all connections of the pool", async () => {
  const { services, listingId, send, create } = await startHolderGateway({
    DATABASE_POOL_SIZE: 4,
    DATABASE_CONNECTIONS_PER_HOLDER: 4,
  });
  const lock = await holdLock(services, "SELECT FROM listings WHERE id = $1 FOR UPDATE", [listingId]);
  const creates = Array.from({ length: 6 }, () => create());
  await waitForBlocked(services, 4);
  expect((await send({ path: "/readyz" })).json).toEqual({ status: "ok" });
  await lock.commit();
  for (const { status } of await Promise.all(creates)) expect(status).toBe(201);
});

test("/readyz answers within 1 s while a write hangs, and then says so", async () => {
  const { url } = await createTestDatabase();
  const { services, send } = await startHolderGateway({ DATABASE_URL: url });
  await holdLock(services, "LOCK pg_largeobject");
  const readyz = async () => {
    const began = performance.now();
    const { json, status } = await send({ path: "/readyz" });
    return { json, status, isFast: performance.now() - began < 1_000 };
  };
  const ok = { json: { status: "ok" }, status: 200, isFast: true };
  expect(await readyz()).toEqual(ok);
  const failing = { ...ok, json: { status: "ok", writes: expect.stringMatching(/^failing: /) } };
  await expect.poll(readyz, { timeout: 10_000, interval: 200 }).toEqual(failing);
});

test("a write that hangs delays no answer about reads, and is reported once it has not ended in time", async () => {
  const { url } = await createTestDatabase();
  // The database itself ends no statement meanwhile.
  const timeouts = { DATABASE_LOCK_TIMEOUT_MS: "60000", DATABASE_STATEMENT_TIMEOUT_MS: "60000" };
  const settings = readSettings({ DATABASE_URL: url, ...timeouts });
  const readiness = openReadiness(settings, 3_000, { info() {}, warn() {}, error() {} });
  onTestFinished(() => readiness.close());
  await holdLock({ db: { url } }, "LOCK pg_largeobject");
  const first = readiness.examine();
  expect(await first).toEqual({});
  await expect.poll(() => readiness.examine() === first).toBe(false);
  expect(await readiness.examine()).toEqual({});
  const hanging = { writeProblem: "the database does not answer to a write" };
  await expect.poll(() => readiness.examine(), { timeout: 15_000 }).toEqual(hanging);
});
