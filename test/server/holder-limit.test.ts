import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { openTestCore } from "../support/core.js";
import { asUser, catchServiceError, makeForm } from "../support/factories.js";

const PER_HOLDER = 2;
/** See WAITING_PER_CONNECTION. */
const MAX_WAITING = 100 * PER_HOLDER;
const TIMEOUT_MS = 3_000;
const BUSY = {
  serviceCode: "INTERNAL_ERROR",
  status: 503,
  message: "Too many of your requests are in progress. Send fewer at a time, and retry this one.",
};

const env = { DATABASE_CONNECTIONS_PER_HOLDER: `${PER_HOLDER}`, DATABASE_POOL_SIZE: `${PER_HOLDER + 1}` };
const { services, owner, makeOwner, openProcess, holdLock, waitForBlocked } = await openTestCore(env);
/** A process in which work may wait only for TIMEOUT_MS, in which even a slow machine opens a connection. */
const impatient = await openProcess({ ...env, DATABASE_CONNECT_TIMEOUT_MS: `${TIMEOUT_MS}` });

/**
 * Locks all listings, and starts this many creates of the owner. Runs `work` while as many as may run wait for the lock, and
 * the others for their turn. Then lets all end, and returns the forms.
 */
async function whileBlocked(
  count: number,
  work: () => Promise<unknown>,
  { on = services, running = Math.min(count, PER_HOLDER) } = {},
) {
  const lock = await holdLock("SELECT FROM listings FOR UPDATE");
  const creates = Array.from({ length: count }, () => makeForm(on, owner.userId, owner.listingId));
  await expect.poll(() => on.holderLimit.waiting).toBe(count - running);
  await waitForBlocked(running);
  await work();
  await lock.commit();
  return Promise.all(creates);
}

test("its owner's creates use at most DATABASE_CONNECTIONS_PER_HOLDER connections, and the others wait", async () => {
  await whileBlocked(6, async () => {
    await sleep(100);
    await waitForBlocked(PER_HOLDER);
  });
  expect(services.holderLimit.waiting).toBe(0);
});

test("the waiting requests of a key holder run in the order in which they arrived", async () => {
  const on = await openProcess({ DATABASE_CONNECTIONS_PER_HOLDER: "1" });
  const times = (await whileBlocked(5, async () => {}, { on, running: 1 })).map(({ createdAt }) => createdAt);
  expect(times).toEqual([...times].sort());
});

test("its owner's lists and updates wait too, and another key holder's requests do not", async () => {
  const { id } = await owner.addForm();
  const other = await makeOwner();
  const theirs = await other.addForm();
  let waiting: Promise<unknown>[] = [];
  await whileBlocked(PER_HOLDER, async () => {
    waiting = [
      owner.forms.list({}),
      owner.forms.get({ id }),
      owner.forms.update({ id, ...owner.body }),
      owner.forms.setParty({ id, numberOfPets: 0 }),
      asUser(services, owner.userId).listings.list({}),
    ];
    await expect.poll(() => services.holderLimit.waiting).toBe(waiting.length);
    expect((await other.forms.list({})).items).toEqual([theirs]);
  });
  await Promise.all(waiting);
});

test("a request that waits for DATABASE_CONNECT_TIMEOUT_MS gets 503 with retryAfter, and is not executed later", async () => {
  const { forms } = await owner.countRows();
  const work = async () => {
    const began = performance.now();
    const error = await catchServiceError(makeForm(impatient, owner.userId, owner.listingId));
    expect(error).toMatchObject({ ...BUSY, retryAfter: expect.any(Number) });
    expect(performance.now() - began).toBeGreaterThan(TIMEOUT_MS - 10);
  };
  await whileBlocked(PER_HOLDER, work, { on: impatient });
  expect((await owner.countRows()).forms).toBe(forms + PER_HOLDER);
});

test("a request that arrives while very many of its key holder wait gets 503 at once", async () => {
  let rejections = 0;
  services.holderLimit.onRejected = () => rejections++;
  await whileBlocked(PER_HOLDER + MAX_WAITING, async () => {
    expect(await catchServiceError(owner.forms.list({}))).toMatchObject(BUSY);
    expect((await (await makeOwner()).forms.list({})).items).toEqual([]);
  });
  expect(rejections).toBe(1);
});

test("requests that time out together all get 503", async () => {
  const list = () => catchServiceError(asUser(impatient, owner.userId).forms.list({}));
  const work = async () => {
    for (const error of await Promise.all(Array.from({ length: 100 }, list))) expect(error).toMatchObject(BUSY);
    expect(impatient.holderLimit.waiting).toBe(0);
  };
  await whileBlocked(PER_HOLDER, work, { on: impatient });
});

test("a failed request passes its turn on", async () => {
  const unknown = Array.from({ length: 10 }, () => catchServiceError(owner.forms.get({ id: crypto.randomUUID() })));
  for (const { status } of await Promise.all(unknown)) expect(status).toBe(404);
  expect((await owner.forms.list({ limit: 1 })).items).toHaveLength(1);
});

test("a key holder without requests takes no memory", async () => {
  await whileBlocked(PER_HOLDER + 1, async () => expect(services.holderLimit.holders).toBe(1));
  expect(services.holderLimit.holders).toBe(0);
});

test("a request whose deadline passes while it waits is not executed", async () => {
  const deadline = new AbortController();
  const { forms } = asUser(services, owner.userId, { signal: deadline.signal });
  const before = await owner.countRows();
  const query = vi.spyOn(services.db, "query");
  onTestFinished(() => query.mockRestore());
  let stopped: Promise<void>[] = [];
  await whileBlocked(PER_HOLDER, async () => {
    const requests = [forms.create({ ...owner.body, numberOfGuests: 7 }), forms.list({})];
    stopped = requests.map((request) => expect(request).rejects.toMatchObject({ status: 500 }));
    await expect.poll(() => services.holderLimit.waiting).toBe(2);
    deadline.abort();
  });
  await Promise.all(stopped);
  expect((await owner.countRows()).forms).toBe(before.forms + PER_HOLDER);
  expect(query.mock.calls.map(([name]) => name)).not.toContain("forms");
});
