import { beforeAll, beforeEach, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { isLastAttempt, openQueue, type Queue } from "../../server/notifications/queue.js";
import { asOperator, listNotifications, openTestServices } from "../support/factories.js";
import { type ListingOwner, makeListingOwner } from "../support/listing-owner.js";

const MAX_CRASHES = 5;

let services: Services;
let owner: ListingOwner;
/** The queue of a worker that crashes. */
let crashing: Queue;
/** The queue of a worker that keeps running. */
let surviving: Queue;

beforeAll(async () => {
  services = await openTestServices();
  owner = await makeListingOwner(services);
  crashing = openQueue(services.db, "crashing");
  surviving = openQueue(services.db, "surviving");
});

let guests = 0;
beforeEach(async () => {
  await services.db.pool.query("DELETE FROM notifications");
  await owner.create({ ...owner.body, numberOfGuests: ++guests });
});

const firstUnsent = async () => (await listNotifications(services))[0];
const makeDue = () =>
  services.db.pool.query("UPDATE notifications SET next_attempt_at = now() - interval '1 second'");

/** Claims the notification with a worker that then becomes stale. Returns what the other worker releases. */
async function crashOnce() {
  await makeDue();
  const claimed = await crashing.claim();
  expect(claimed).toBeDefined();
  await services.db.pool.query("UPDATE notifications SET heartbeat_at = now() - interval '1 minute'");
  const released = await surviving.releaseStale();
  expect(released.map(({ notificationId }) => notificationId)).toEqual([claimed?.notificationId]);
  return released[0];
}

test("a notification that crashes its worker five times in a row is given up, and listed as failed", async () => {
  for (let crashes = 1; crashes < MAX_CRASHES; crashes++) {
    expect(await crashOnce()).toMatchObject({ crashes, givenUp: null });
    const { state, attempts, runAt } = (await firstUnsent()) ?? {};
    expect({ state, attempts }).toEqual({ state: "waiting", attempts: 0 });
    expect(Date.parse(runAt ?? ""), "it is delayed, so other notifications go first").toBeGreaterThan(
      Date.now(),
    );
  }
  const reason = `its worker crashed at each of ${MAX_CRASHES} attempts in a row`;
  expect(await crashOnce()).toMatchObject({ crashes: MAX_CRASHES, givenUp: reason });
  expect(await firstUnsent()).toMatchObject({ state: "failed", attempts: 0, lastError: reason, runAt: null });
  expect(await crashing.claim()).toBeUndefined();
});

test("after an operator retries a notification, its worker may crash five more times before it is given up", async () => {
  for (let crashes = 1; crashes <= MAX_CRASHES; crashes++) await crashOnce();
  const { id = "" } = (await firstUnsent()) ?? {};
  expect(await asOperator(services).notifications.retry({ id })).toMatchObject({
    state: "waiting",
    attempts: 0,
  });
  for (let crashes = 1; crashes < MAX_CRASHES; crashes++)
    expect(await crashOnce()).toMatchObject({ givenUp: null });
  expect(await crashOnce()).toMatchObject({ givenUp: expect.any(String) });
});

test("a recorded failure resets the count of crashes, and crashes are not counted as attempts", async () => {
  for (let round = 1; round <= 3; round++) {
    for (let crashes = 1; crashes < MAX_CRASHES; crashes++)
      expect(await crashOnce()).toMatchObject({ givenUp: null });
    await makeDue();
    const claimed = await surviving.claim();
    expect(claimed?.attempts).toBe(round);
    await surviving.markFailed(claimed?.notificationId ?? "", "busy", false);
    expect(await firstUnsent()).toMatchObject({ state: "retrying", attempts: round, lastError: "busy" });
  }
});

test("temporary failures are retried for four days", async () => {
  const PAUSE = "SELECT extract(epoch FROM next_attempt_at - now())::float8 AS seconds FROM notifications";
  let seconds = 0;
  for (let isLast = false; !isLast; ) {
    await makeDue();
    const claimed = (await surviving.claim()) ?? expect.fail("nothing to claim");
    isLast = isLastAttempt(claimed);
    await surviving.markFailed(claimed.notificationId, "busy", isLast);
    seconds += (await services.db.pool.query(PAUSE)).rows[0].seconds ?? 0;
  }
  expect(seconds / 86_400).toBeCloseTo(4, 1);
});

test("a permanently rejected notification shows its number of attempts and no next attempt", async () => {
  const first = await surviving.claim();
  await surviving.markFailed(first?.notificationId ?? "", "busy", false);
  await makeDue();
  const second = await surviving.claim();
  await surviving.markFailed(second?.notificationId ?? "", "no such mailbox", true);
  expect(await firstUnsent()).toMatchObject({
    state: "failed",
    attempts: 2,
    lastError: "no such mailbox",
    runAt: null,
  });
});

test("notifications.list returns the oldest first, also when their ids get another digit", async () => {
  await services.db.pool.query("DELETE FROM notifications");
  await services.db.pool.query("ALTER SEQUENCE notifications_id_seq RESTART WITH 99");
  for (let count = 0; count < 2; count++) await owner.create({ ...owner.body, numberOfGuests: ++guests });
  expect((await listNotifications(services)).map(({ id }) => id)).toEqual(["99", "100"]);
});
