import { randomUUID } from "node:crypto";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { MARK_IN_FLIGHT } from "../../server/database/in-flight-creates.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { openTestCore } from "../support/core.js";
import { asUser } from "../support/factories.js";
import { LOCK_USERS } from "../support/locks.js";
import { fixedStay } from "../support/stays.js";

const core = await openTestCore({ DATABASE_POOL_SIZE: "12" });
const { services, makeOwner, setRole, holdLock, waitForBlocked, sql } = core;
/** Another process, so that writers do not use up the readers' connections. */
const reader = await core.openProcess();

const isSettled = (work: Promise<unknown>) =>
  Promise.race([work.then(() => true), new Promise<false>((resolve) => setTimeout(() => resolve(false), 150))]);

const INSERT_FORM = `
  INSERT INTO forms (id, public_id, listing_id, fingerprint) VALUES ($1::uuid, $2, $3::uuid, '')`;

describe("a create in flight", () => {
  /** Blocks a create before its commit, commits two later creates of another user, and requests a page of one form. */
  async function startBlockedCreate({ isFiltered = false } = {}) {
    const owner = await makeOwner();
    const colleague = await makeOwner();
    const third = await makeOwner();
    for (const { userId } of [colleague, third]) await setRole(owner.listingId, userId, "WRITER");
    const lock = await holdLock(LOCK_USERS, [[colleague.userId]]);
    const late = colleague.create(fixedStay(owner.listingId, { numberOfGuests: 1 }));
    const [pid] = await waitForBlocked(1);
    const done: FormV1[] = [];
    for (const numberOfGuests of [2, 3]) {
      done.push((await owner.create({ ...owner.body, numberOfGuests })).form);
    }
    const { forms } = asUser(reader, owner.userId);
    const filter = isFiltered ? { listingId: owner.listingId } : {};
    return { owner, third, lock, late, pid, done, forms, filter, page: forms.list({ limit: 1, ...filter }) };
  }

  test.each([
    ["of all forms", false],
    ["of one listing's forms", true],
  ])("delays a page %s whose cursor would skip it, and is on that page", async (_, isFiltered) => {
    const { lock, late, done, forms, filter, page } = await startBlockedCreate({ isFiltered });
    expect(await isSettled(page)).toBe(false);
    await lock.commit();
    const { form } = await late;
    const { items, nextCursor } = await page;
    expect(items).toEqual([form]);
    const rest = await forms.list({ ...filter, cursor: nextCursor ?? "" });
    expect(rest.items).toEqual(done);
  });

  test("delays the page if its transaction id is the newest one, which no snapshot lists", async () => {
    const owner = await makeOwner();
    const earlier = await holdLock("SELECT pg_current_xact_id()");
    const late = await holdLock(`SELECT ${MARK_IN_FLIGHT}`);
    const insert = async ({ client }: typeof late) => {
      const id = randomUUID();
      const publicId = id.replaceAll("-", "").slice(0, 21);
      await client.query(INSERT_FORM, [id, publicId, owner.listingId]);
      return id;
    };
    const ids = [await insert(late), await insert(earlier), await insert(earlier)];
    await earlier.commit();
    const page = asUser(reader, owner.userId).forms.list({ limit: 1 });
    expect(await isSettled(page)).toBe(false);
    await late.commit();
    expect((await page).items.map(({ id }) => id)).toEqual(ids.slice(0, 1));
  });

  test("does not delay a page without nextCursor", async () => {
    const { lock, late, done, forms, page } = await startBlockedCreate();
    expect((await forms.list({})).items).toEqual(done);
    await lock.commit();
    await Promise.all([late, page]);
  });

  test.each([
    ["of all forms", false],
    ["of one listing's forms", true],
  ])("does not delay a page %s if its forms are older than LIST_SETTLE_SECONDS", async (_, isFiltered) => {
    const { lock, late, done, forms, filter, page } = await startBlockedCreate({ isFiltered });
    const ids = done.map(({ id }) => id);
    const makeOlder = "UPDATE forms SET created_at = created_at - make_interval(secs => $1) WHERE id = ANY($2)";
    await sql(makeOlder, services.settings.LIST_SETTLE_SECONDS, ids);
    const { items, nextCursor } = await forms.list({ ...filter, limit: 1 });
    expect(items.map(({ id }) => id)).toEqual(ids.slice(0, 1));
    expect(nextCursor).not.toBeNull();
    await lock.commit();
    await Promise.all([late, page]);
  });

  test("delays the page if it would be skipped only after other forms have left the list", async () => {
    const { owner, third, late, pid, done, forms, page } = await startBlockedCreate();
    late.catch(() => {});
    const lock = await holdLock(LOCK_USERS, [[third.userId]]);
    const later = third.create(fixedStay(owner.listingId, { numberOfGuests: 4 }));
    await waitForBlocked(2);
    const next: FormV1[] = [];
    for (const numberOfGuests of [5, 6]) {
      next.push((await owner.create({ ...owner.body, numberOfGuests })).form);
    }
    // The forms of the page leave the list, and the create that it waits for fails.
    const { listingId } = await makeOwner();
    const ids = done.map(({ id }) => id);
    await sql("UPDATE forms SET listing_id = $1 WHERE id = ANY($2)", listingId, ids);
    await sql("SELECT pg_terminate_backend($1)", pid);
    await expect(late).rejects.toMatchObject({ status: 503 });
    expect(await isSettled(page)).toBe(false);
    await lock.commit();
    const { form } = await later;
    const { items, nextCursor } = await page;
    expect(items).toEqual([form]);
    expect((await forms.list({ cursor: nextCursor ?? "" })).items).toEqual(next);
  });

  test("that does not end lets 200 pages wait with at most 25 reads of pg_locks per second, and delays no page without nextCursor", async () => {
    const owner = await makeOwner();
    const hung = await holdLock(`SELECT ${MARK_IN_FLIGHT}`);
    const created = [await owner.addForm(), await owner.addForm()];
    const { forms } = asUser(reader, owner.userId);
    const query = vi.spyOn(reader.db, "query");
    onTestFinished(() => query.mockRestore());
    const countQueries = (name: string) => query.mock.calls.filter(([called]) => called === name).length;
    const pages = Promise.allSettled(Array.from({ length: 200 }, () => forms.list({ limit: 1 })));
    await expect.poll(() => countQueries("forms"), { interval: 5 }).toBe(200);
    expect((await forms.list({})).items).toEqual(created);
    const before = countQueries("in-flight-creates");
    const began = performance.now();
    const countScans = () => countQueries("in-flight-creates") - before;
    await expect.poll(countScans, { interval: 10 }).toBeGreaterThan(10);
    expect(countScans()).toBeLessThanOrEqual(1 + (25 * (performance.now() - began)) / 1000);
    await hung.commit();
    // On a slow machine, pages have by now waited as long as they may, which the next test is about.
    for (const page of await pages)
      expect(page).toMatchObject(
        page.status === "fulfilled"
          ? { value: { items: created.slice(0, 1) } }
          : { reason: { status: 503, cause: { message: "creates in flight take too long" } } },
      );
  });

  test("lets 50 pages wait, and all of them are right once it ends", async () => {
    const owner = await makeOwner();
    const lock = await holdLock(`SELECT ${MARK_IN_FLIGHT}`);
    const created = [await owner.addForm(), await owner.addForm()];
    const { forms } = asUser(reader, owner.userId);
    const query = vi.spyOn(reader.db, "query");
    onTestFinished(() => query.mockRestore());
    const pages = Array.from({ length: 50 }, () => forms.list({ limit: 1 }));
    await expect.poll(() => query.mock.calls.filter(([name]) => name === "forms").length, { interval: 5 }).toBe(50);
    await lock.commit();
    for (const { items } of await Promise.all(pages)) expect(items).toEqual(created.slice(0, 1));
  });

  test("that takes too long makes the page fail with 503 and retryAfter", async () => {
    const { lock, late, page } = await startBlockedCreate();
    await expect(page).rejects.toMatchObject({ status: 503, retryAfter: expect.any(Number) });
    await lock.commit();
    await late;
  });
});

describe("without a create in flight", () => {
  /** Returns a function that lists one of two recent forms and returns the names of the queries that it took. */
  async function recordQueries(): Promise<() => Promise<string[]>> {
    const owner = await makeOwner();
    for (const numberOfGuests of [1, 2]) await owner.create({ ...owner.body, numberOfGuests });
    const settings = { ...reader.settings, LIST_SETTLE_SECONDS: 3600 };
    const { forms } = asUser({ ...reader, settings }, owner.userId);
    const query = vi.spyOn(reader.db, "query");
    onTestFinished(() => query.mockRestore());
    return async () => {
      query.mockClear();
      await forms.list({ limit: 1 });
      return query.mock.calls.map(([name]) => name);
    };
  }

  test("a page of forms that were created just now is one query if no transaction is writing", async () => {
    const listAndRecord = await recordQueries();
    // Other tests write to other databases of the server, so not every attempt is one query.
    await expect.poll(listAndRecord, { interval: 5 }).toEqual(["forms"]);
  });

  test("a page is read again if its last form is not older than the database's clock, because later forms may come before it", async () => {
    const listAndRecord = await recordQueries();
    await sql("UPDATE forms SET created_at = now() + interval '1 minute'");
    for (let attempt = 0; attempt < 5; attempt++) {
      expect(await listAndRecord()).toEqual(["forms", "in-flight-creates", "forms"]);
    }
  });
});
