import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { asUser, catchServiceError, makeForm, makeUser, openTestServices } from "../support/factories.js";
import { type ListingOwner, makeListingOwner } from "../support/listing-owner.js";
import { holdLock, waitForBlocked } from "../support/locks.js";

const PER_HOLDER = 2;
/** See WAITING_PER_CONNECTION. */
const MAX_WAITING = 100 * PER_HOLDER;
const TIMEOUT_MS = 500;

const LOCK_LISTING = "SELECT FROM listings WHERE id = $1 FOR UPDATE";
const BUSY = {
  serviceCode: "INTERNAL_ERROR",
  status: 503,
  message: "Too many of your requests are in progress. Send fewer at a time, and retry this one.",
};

let services: Services;
/** A process in which work may wait only for TIMEOUT_MS. */
let impatient: Services;
let owner: ListingOwner;

beforeAll(async () => {
  const env = { DATABASE_CONNECTIONS_PER_HOLDER: `${PER_HOLDER}`, DATABASE_POOL_SIZE: `${PER_HOLDER + 1}` };
  services = await openTestServices(env);
  impatient = await openTestServices({
    ...env,
    DATABASE_URL: services.db.url,
    DATABASE_CONNECT_TIMEOUT_MS: `${TIMEOUT_MS}`,
  });
  owner = await makeListingOwner(services);
});

/** Starts creates of the owner, which wait for the lock on their listing. */
const startCreates = (count: number, on = services) =>
  Array.from({ length: count }, () => makeForm(on, owner.userId, owner.listingId));

/** Starts lists of the owner in the impatient process. They resolve with their errors. */
const startLists = (count: number) =>
  Array.from({ length: count }, () => catchServiceError(asUser(impatient, owner.userId).forms.list({})));

/** Begins a request. Resolves once it has begun, or with the error that rejects it. */
const begin = (holderId: string, { on = services, isOver = () => false as boolean } = {}) =>
  new Promise<unknown>((resolve) => on.holderLimit.begin(holderId, { begin: resolve, isOver }));

describe("while a listing is locked", () => {
  test("its owner's creates use at most DATABASE_CONNECTIONS_PER_HOLDER connections, and the others wait", async () => {
    const lock = await holdLock(services, LOCK_LISTING, [owner.listingId]);
    const creates = startCreates(6);
    await waitForBlocked(services, PER_HOLDER);
    expect(services.holderLimit.waiting).toBe(4);
    await sleep(100);
    await waitForBlocked(services, PER_HOLDER);
    await lock.commit();
    await Promise.all(creates);
    expect(services.holderLimit.waiting).toBe(0);
  });

  test("the waiting requests of a key holder run in the order in which they arrived", async () => {
    const one = await openTestServices({
      DATABASE_CONNECTIONS_PER_HOLDER: "1",
      DATABASE_URL: services.db.url,
    });
    const lock = await holdLock(services, LOCK_LISTING, [owner.listingId]);
    const creates = startCreates(5, one);
    await waitForBlocked(services, 1);
    await lock.commit();
    const times = (await Promise.all(creates)).map(({ createdAt }) => createdAt);
    expect(times).toEqual([...times].sort());
  });

  test("its owner's lists and updates wait too, and another key holder's requests do not", async () => {
    const form = await owner.addForm();
    const lock = await holdLock(services, LOCK_LISTING, [owner.listingId]);
    const creates = startCreates(PER_HOLDER);
    await waitForBlocked(services, PER_HOLDER);
    const waiting = [
      owner.forms.list({}),
      owner.forms.get({ id: form.id }),
      owner.forms.update({ id: form.id, ...owner.body }),
      owner.forms.setParty({ id: form.id, numberOfPets: 0 }),
      asUser(services, owner.userId).listings.list({}),
    ];
    await expect.poll(() => services.holderLimit.waiting).toBe(waiting.length);
    const other = await makeListingOwner(services);
    const created = await other.addForm();
    expect((await other.forms.list({})).items).toEqual([created]);
    await lock.commit();
    await Promise.all([...creates, ...waiting]);
  });

  test("a request that waits for DATABASE_CONNECT_TIMEOUT_MS gets 503 with retryAfter, and is not executed later", async () => {
    const lock = await holdLock(services, LOCK_LISTING, [owner.listingId]);
    const creates = startCreates(PER_HOLDER, impatient);
    await waitForBlocked(services, PER_HOLDER);
    const { forms } = await owner.countRows();
    const began = performance.now();
    const error = await catchServiceError(makeForm(impatient, owner.userId, owner.listingId));
    expect(error).toMatchObject({ ...BUSY, retryAfter: expect.any(Number) });
    expect(performance.now() - began).toBeGreaterThan(TIMEOUT_MS - 10);
    await lock.commit();
    await Promise.all(creates);
    expect((await owner.countRows()).forms).toBe(forms + PER_HOLDER);
  });

  test("a request that arrives while very many of its key holder wait gets 503 at once", async () => {
    const lock = await holdLock(services, LOCK_LISTING, [owner.listingId]);
    let rejections = 0;
    services.holderLimit.onRejected = () => rejections++;
    const creates = startCreates(PER_HOLDER + MAX_WAITING);
    await expect.poll(() => services.holderLimit.waiting).toBe(MAX_WAITING);
    expect(await catchServiceError(owner.forms.list({}))).toMatchObject(BUSY);
    expect(await begin(owner.userId)).toMatchObject(BUSY);
    expect(await begin((await makeUser(services)).id)).toBeUndefined();
    expect(rejections).toBe(2);
    await lock.commit();
    await Promise.all(creates);
  });

  test("requests that arrive while work of their key holders waits begin four per turn of the event loop, one key holder after the other, and others at once", async () => {
    const second = await makeListingOwner(services);
    const lock = await holdLock(services, "SELECT FROM listings FOR UPDATE", []);
    const creates = [owner, second].flatMap(({ userId, listingId }) =>
      Array.from({ length: PER_HOLDER + 1 }, () => makeForm(services, userId, listingId)),
    );
    await expect.poll(() => services.holderLimit.waiting).toBe(2);
    const started: string[] = [];
    const arrive = (id: string) =>
      services.holderLimit.begin(id, { begin: () => started.push(id), isOver: () => false });
    for (let n = 0; n < 9; n++) arrive(owner.userId);
    for (let n = 0; n < 3; n++) arrive(second.userId);
    expect(started).toEqual([]);
    arrive("another");
    expect(started.splice(0)).toEqual(["another"]);
    const [a, b] = [owner.userId, second.userId];
    for (const turn of [[a, b, a, b], [a, b, a, a], [a, a, a, a], []]) {
      await new Promise(setImmediate);
      expect(started.splice(0)).toEqual(turn);
    }
    await lock.commit();
    await Promise.all(creates);
  });

  test("requests that time out together all get 503, and so do those that have not begun after a quarter of that time", async () => {
    const lock = await holdLock(services, LOCK_LISTING, [owner.listingId]);
    const creates = startCreates(PER_HOLDER, impatient);
    await waitForBlocked(services, PER_HOLDER);
    const lists = startLists(100);
    await expect.poll(() => impatient.holderLimit.waiting).toBe(100);
    const began = performance.now();
    const arrivals = Array.from({ length: 100 }, () => begin(owner.userId, { on: impatient }));
    // Blocks the event loop for so long that none can begin in time.
    while (performance.now() - began < TIMEOUT_MS / 2);
    for (const error of await Promise.all(arrivals)) expect(error).toMatchObject(BUSY);
    for (const error of await Promise.all(lists)) expect(error).toMatchObject(BUSY);
    expect(impatient.holderLimit.waiting).toBe(0);
    await lock.commit();
    await Promise.all(creates);
  });

  test("a request that nobody waits for any more does not begin", async () => {
    const lock = await holdLock(services, LOCK_LISTING, [owner.listingId]);
    const creates = startCreates(PER_HOLDER + 1);
    await expect.poll(() => services.holderLimit.waiting).toBe(1);
    const begun: string[] = [];
    void begin(owner.userId, { isOver: () => true }).then(() => begun.push("over"));
    await begin(owner.userId).then(() => begun.push("awaited"));
    expect(begun).toEqual(["awaited"]);
    await lock.commit();
    await Promise.all(creates);
  });

  test("requests that begin in turns keep their own async context, and so their own trace", async () => {
    const lock = await holdLock(services, LOCK_LISTING, [owner.listingId]);
    const creates = startCreates(PER_HOLDER + 1);
    await expect.poll(() => services.holderLimit.waiting).toBe(1);
    const context = new AsyncLocalStorage<number>();
    const seen: unknown[] = [];
    const arrival = { begin: () => seen.push(context.getStore()), isOver: () => false };
    for (const n of [1, 2, 3]) context.run(n, () => services.holderLimit.begin(owner.userId, arrival));
    await expect.poll(() => seen).toEqual([1, 2, 3]);
    await lock.commit();
    await Promise.all(creates);
  });

  test("a request whose deadline passes while it waits is not executed", async () => {
    const lock = await holdLock(services, LOCK_LISTING, [owner.listingId]);
    const creates = startCreates(PER_HOLDER);
    await waitForBlocked(services, PER_HOLDER);
    const deadline = new AbortController();
    const { forms } = asUser(services, owner.userId, { signal: deadline.signal });
    const late = forms.create({ ...owner.body, numberOfGuests: 7 });
    const stopped = expect(late).rejects.toMatchObject({ status: 500 });
    await expect.poll(() => services.holderLimit.waiting).toBe(1);
    deadline.abort();
    await lock.commit();
    await stopped;
    await Promise.all(creates);
  });
});

test("a failed request passes its turn on", async () => {
  const unknown = Array.from({ length: 10 }, () =>
    catchServiceError(owner.forms.get({ id: crypto.randomUUID() })),
  );
  for (const { status } of await Promise.all(unknown)) expect(status).toBe(404);
  expect((await owner.forms.list({ limit: 1 })).items).toHaveLength(1);
});
