import { beforeAll, expect, test } from "vitest";
import { openReadiness, type Readiness } from "../../gateway/http/readiness.js";
import { readSettings } from "../../server/config.js";
import { createTestDatabase } from "../support/database.js";
import { makeListing } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import { holdLock, waitForBlocked } from "../support/locks.js";
import { uniqueStay } from "../support/stays.js";

let readiness: Readiness;

beforeAll(async () => {
  const { url } = await createTestDatabase();
  readiness = openReadiness(readSettings({ DATABASE_URL: url }), 2_000);
  return () => readiness.close();
});

test("all checks that arrive within 500 ms after an examination share its one query", async () => {
  const began = performance.now();
  const first = readiness.problem();
  expect(await first).toBeUndefined();
  await expect
    .poll(
      () => {
        const elapsedMs = performance.now() - began;
        const isShared = readiness.problem() === first;
        if (elapsedMs < 490) expect(isShared).toBe(true);
        return isShared;
      },
      { interval: 10 },
    )
    .toBe(false);
  const seen = new Set(Array.from({ length: 100 }, () => readiness.problem()));
  expect(seen.size).toBe(1);
});

test("/readyz returns 200 while requests that wait for a lock use all connections of the pool", async () => {
  const gateway = await startTestGateway({ DATABASE_POOL_SIZE: 4 });
  const services = await gateway.services();
  const { key, userId } = await gateway.addKeyHolder();
  const { id: listingId } = await makeListing(services, userId);
  const lock = await holdLock(services, "SELECT FROM listings WHERE id = $1 FOR UPDATE", [listingId]);
  const creates = Array.from({ length: 6 }, () =>
    gateway.request({ method: "POST", path: "/v1/forms", key, body: uniqueStay(listingId) }),
  );
  await waitForBlocked(services, 4);
  expect((await gateway.request({ path: "/readyz" })).json).toEqual({ status: "ok" });
  await lock.commit();
  for (const { status } of await Promise.all(creates)) expect(status).toBe(201);
});
