import { beforeAll, beforeEach, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { openQueue, type Queue } from "../../server/notifications/queue.js";
import { asOperator, openTestServices } from "../factories.js";
import { type ListingOwner, makeListingOwner } from "./listing-owner.js";

const MAX_CRASHES = 5;

let services: Services;
let owner: ListingOwner;
/** Of a worker that crashes, and of one that lives. */
let victim: Queue;
let survivor: Queue;

beforeAll(async () => {
  services = await openTestServices();
  owner = await makeListingOwner(services);
  victim = openQueue(services.db, "victim");
  survivor = openQueue(services.db, "survivor");
});

let guests = 0;
beforeEach(async () => {
  await services.db.pool.query("DELETE FROM notifications");
  await owner.create({ ...owner.body, numberOfGuests: ++guests });
});

const only = async () => (await asOperator(services).notifications.list())[0];
const makeDue = () =>
  services.db.pool.query("UPDATE notifications SET next_attempt_at = now() - interval '1 second'");

/** Claims the notification as a worker that then sends no heartbeat for a minute; what the survivor releases. */
async function crash() {
  await makeDue();
  const claimed = await victim.claim();
  expect(claimed).toBeDefined();
  await services.db.pool.query("UPDATE notifications SET heartbeat_at = now() - interval '1 minute'");
  const released = await survivor.releaseStale();
  expect(released.map(({ notificationId }) => notificationId)).toEqual([claimed?.notificationId]);
  return released[0];
}

test("a message that crashes its worker each time is given up after five crashes, and visible as failed", async () => {
  for (let crashes = 1; crashes < MAX_CRASHES; crashes++) {
    expect(await crash()).toMatchObject({ crashes, givenUp: null });
    const { state, attempts, runAt } = (await only()) ?? {};
    expect({ state, attempts }).toEqual({ state: "waiting", attempts: 0 });
    expect(Date.parse(runAt ?? ""), "other messages may pass it").toBeGreaterThan(Date.now());
  }
  const reason = `its worker crashed at each of ${MAX_CRASHES} attempts in a row`;
  expect(await crash()).toMatchObject({ crashes: MAX_CRASHES, givenUp: reason });
  expect(await only()).toMatchObject({ state: "failed", attempts: 0, lastError: reason, runAt: null });
  expect(await victim.claim()).toBeUndefined();
});

test("a message given up after crashes is tried as often again when an operator retries it", async () => {
  for (let crashes = 1; crashes <= MAX_CRASHES; crashes++) await crash();
  const { id = "" } = (await only()) ?? {};
  expect(await asOperator(services).notifications.retry({ id })).toMatchObject({
    state: "waiting",
    attempts: 0,
  });
  for (let crashes = 1; crashes < MAX_CRASHES; crashes++)
    expect(await crash()).toMatchObject({ givenUp: null });
  expect(await crash()).toMatchObject({ givenUp: expect.any(String) });
});

test("crashes that a recorded failure interrupts do not add up, and are not counted as attempts", async () => {
  for (let round = 1; round <= 3; round++) {
    for (let crashes = 1; crashes < MAX_CRASHES; crashes++)
      expect(await crash()).toMatchObject({ givenUp: null });
    await makeDue();
    const claimed = await survivor.claim();
    expect(claimed?.attempts).toBe(round);
    await survivor.markFailed(claimed?.notificationId ?? "", "busy", false);
    expect(await only()).toMatchObject({ state: "retrying", attempts: round, lastError: "busy" });
  }
});

test("what was refused for good shows its real attempts and no next one", async () => {
  const first = await survivor.claim();
  await survivor.markFailed(first?.notificationId ?? "", "busy", false);
  await makeDue();
  const second = await survivor.claim();
  await survivor.markFailed(second?.notificationId ?? "", "no such mailbox", true);
  expect(await only()).toMatchObject({
    state: "failed",
    attempts: 2,
    lastError: "no such mailbox",
    runAt: null,
  });
});
