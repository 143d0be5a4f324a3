import pg from "pg";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { asUser, fixedStay, openTestServices, setRole } from "../factories.js";
import { formIdsInScope, makeUserWithForms } from "./bulk.js";
import { type ListingOwner, makeListingOwner } from "./listing-owner.js";

let services: Services;
/** Another process, whose connections the writers do not use up. */
let reader: Services;

beforeAll(async () => {
  services = await openTestServices({ APP_SECRETS: "", DATABASE_POOL_SIZE: "12" });
  reader = await openTestServices({ APP_SECRETS: "", DATABASE_URL: services.db.url });
});

const clients: pg.Client[] = [];

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.end()));
});

/** Holds the creates of a user up when they have inserted all their rows, until the client's transaction ends. */
async function holdUp(userId: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: services.db.url });
  clients.push(client);
  await client.connect();
  await client.query("BEGIN");
  await client.query("SELECT FROM users WHERE id = $1 FOR UPDATE", [userId]);
  return client;
}

/** The backend that waits behind that, the longest of so many. */
async function heldUp(count = 1): Promise<number> {
  let pid = 0;
  await expect
    .poll(
      async () => {
        const { rows } = await services.db.pool.query<{ pid: number }>(
          "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' ORDER BY query_start",
        );
        pid = rows[0]?.pid ?? 0;
        return rows.length;
      },
      { interval: 5 },
    )
    .toBe(count);
  return pid;
}

const isSettled = (work: Promise<unknown>) =>
  Promise.race([
    work.then(() => true),
    new Promise<false>((resolve) => setTimeout(() => resolve(false), 150)),
  ]);

describe("a create that is late to commit", () => {
  /** A create is held up, with two later ones by another user done; then the first page of one is asked for. */
  async function scene() {
    const owner = await makeListingOwner(services);
    const colleague = await makeListingOwner(services);
    const third = await makeListingOwner(services);
    for (const { userId } of [colleague, third]) await setRole(services, owner.listingId, userId, "WRITER");
    const lock = await holdUp(colleague.userId);
    const late = colleague.create(fixedStay(owner.listingId, { numberOfGuests: 1 }));
    const pid = await heldUp();
    const done: FormV1[] = [];
    for (const numberOfGuests of [2, 3]) {
      done.push((await owner.create({ ...owner.body, numberOfGuests })).form);
    }
    const { forms } = asUser(reader, owner.userId);
    return { owner, third, lock, late, pid, done, forms, page: forms.list({ limit: 1 }) };
  }

  test("is waited for before a cursor behind it is given out, and is on the page", async () => {
    const { lock, late, done, forms, page } = await scene();
    expect(await isSettled(page)).toBe(false);
    await lock.query("COMMIT");
    const { form } = await late;
    const { items, nextCursor } = await page;
    expect(items).toEqual([form]);
    const rest = await forms.list({ cursor: nextCursor ?? "" });
    expect(rest.items).toEqual(done);
  });

  test("is not waited for once it has failed", async () => {
    const { late, pid, done, page } = await scene();
    late.catch(() => {});
    expect(await isSettled(page)).toBe(false);
    await services.db.pool.query("SELECT pg_terminate_backend($1)", [pid]);
    expect((await page).items).toEqual(done.slice(0, 1));
    await expect(late).rejects.toMatchObject({ serviceCode: "INTERNAL_ERROR", status: 503 });
  });

  test("is not waited for by a page that gives out no cursor", async () => {
    const { lock, late, done, forms, page } = await scene();
    expect((await forms.list({})).items).toEqual(done);
    await lock.query("COMMIT");
    await Promise.all([late, page]);
  });

  test("is waited for where the page has moved towards it meanwhile", async () => {
    const { owner, third, late, pid, done, forms, page } = await scene();
    late.catch(() => {});
    const lock = await holdUp(third.userId);
    const later = third.create(fixedStay(owner.listingId, { numberOfGuests: 4 }));
    await heldUp(2);
    const next: FormV1[] = [];
    for (const numberOfGuests of [5, 6]) {
      next.push((await owner.create({ ...owner.body, numberOfGuests })).form);
    }
    // Out of the list goes what was on the page, and the create that it waited for fails.
    const { listingId } = await makeListingOwner(services);
    await services.db.pool.query("UPDATE forms SET listing_id = $1 WHERE id = ANY($2)", [
      listingId,
      done.map(({ id }) => id),
    ]);
    await services.db.pool.query("SELECT pg_terminate_backend($1)", [pid]);
    await expect(late).rejects.toMatchObject({ status: 503 });
    expect(await isSettled(page)).toBe(false);
    await lock.query("COMMIT");
    const { form } = await later;
    const { items, nextCursor } = await page;
    expect(items).toEqual([form]);
    expect((await forms.list({ cursor: nextCursor ?? "" })).items).toEqual(next);
  });

  test("that outlasts all patience makes the page unavailable rather than wrong", async () => {
    const { lock, late, page } = await scene();
    await expect(page).rejects.toMatchObject({ serviceCode: "INTERNAL_ERROR", status: 503, retryAfter: 1 });
    await lock.query("COMMIT");
    await late;
  });
});

describe("10,000 forms, 500 to an instant, and eight writers", () => {
  const WRITERS = 8;
  const CREATES = 100;

  let userId: string;
  const writers: ListingOwner[] = [];

  beforeAll(async () => {
    userId = await makeUserWithForms(services, { listings: 60, formsPerListing: 167, distinctTimes: 20 });
    for (let count = 0; count < WRITERS; count++) {
      const writer = await makeListingOwner(services);
      await setRole(services, writer.listingId, userId, "OWNER");
      writers.push(writer);
    }
  });

  let writing = true;

  /** Follows the list: in pages of that size, then, at the heels of the writers, one by one; to the end when they are done. */
  async function follow(limit: number): Promise<string[]> {
    const { forms } = asUser(reader, userId);
    const ids: string[] = [];
    let hasCaughtUp = false;
    for (let cursor: string | undefined; ; ) {
      const isLast = !writing;
      const page = await forms.list({ limit: hasCaughtUp ? 1 : limit, ...(cursor && { cursor }) });
      if (page.nextCursor || isLast) ids.push(...page.items.map(({ id }) => id));
      if (!page.nextCursor && isLast) return ids;
      hasCaughtUp ||= !page.nextCursor;
      cursor = page.nextCursor ?? cursor;
    }
  }

  test("whoever follows the list misses nothing and gets nothing twice", { timeout: 360_000 }, async () => {
    expect(await formIdsInScope(services, userId)).toHaveLength(10_020);
    const written = Promise.all(
      writers.map(async ({ create, listingId }) => {
        for (let count = 1; count <= CREATES; count++) {
          await create(fixedStay(listingId, { numberOfGuests: count }));
        }
      }),
    ).finally(() => {
      writing = false;
    });
    const [, ...followed] = await Promise.all([written, follow(100), follow(61)]);
    const all = await formIdsInScope(services, userId);
    expect(all).toHaveLength(10_020 + WRITERS * CREATES);
    for (const ids of followed) expect(ids).toEqual(all);
  });
});
