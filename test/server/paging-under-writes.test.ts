import pg from "pg";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { asUser, fixedStay, openTestServices, setRole } from "../factories.js";
import { formIdsInScope, makeUserWithForms } from "./bulk.js";
import { type ListingOwner, makeListingOwner } from "./listing-owner.js";

let services: Services;
/** Another process, so that writers do not use up the readers' connections. */
let reader: Services;

beforeAll(async () => {
  services = await openTestServices({ APP_SECRETS: "", DATABASE_POOL_SIZE: "12" });
  reader = await openTestServices({ APP_SECRETS: "", DATABASE_URL: services.db.url });
});

const clients: pg.Client[] = [];

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.end()));
});

/** Blocks a user's creates after they have inserted all their rows, until the returned client commits. */
async function blockCreatesOf(userId: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: services.db.url });
  clients.push(client);
  await client.connect();
  await client.query("BEGIN");
  await client.query("SELECT FROM users WHERE id = $1 FOR UPDATE", [userId]);
  return client;
}

/** Waits until `count` statements wait for a lock. Returns the backend pid of the longest-running. */
async function waitForBlocked(count = 1): Promise<number> {
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

describe("a create in flight", () => {
  /** Blocks a create before its commit, commits two later creates of another user, and requests a page of one form. */
  async function startBlockedCreate() {
    const owner = await makeListingOwner(services);
    const colleague = await makeListingOwner(services);
    const third = await makeListingOwner(services);
    for (const { userId } of [colleague, third]) await setRole(services, owner.listingId, userId, "WRITER");
    const lock = await blockCreatesOf(colleague.userId);
    const late = colleague.create(fixedStay(owner.listingId, { numberOfGuests: 1 }));
    const pid = await waitForBlocked();
    const done: FormV1[] = [];
    for (const numberOfGuests of [2, 3]) {
      done.push((await owner.create({ ...owner.body, numberOfGuests })).form);
    }
    const { forms } = asUser(reader, owner.userId);
    return { owner, third, lock, late, pid, done, forms, page: forms.list({ limit: 1 }) };
  }

  test("delays a page whose cursor would skip it, and is on that page", async () => {
    const { lock, late, done, forms, page } = await startBlockedCreate();
    expect(await isSettled(page)).toBe(false);
    await lock.query("COMMIT");
    const { form } = await late;
    const { items, nextCursor } = await page;
    expect(items).toEqual([form]);
    const rest = await forms.list({ cursor: nextCursor ?? "" });
    expect(rest.items).toEqual(done);
  });

  test("no longer delays the page after it has failed", async () => {
    const { late, pid, done, page } = await startBlockedCreate();
    late.catch(() => {});
    expect(await isSettled(page)).toBe(false);
    await services.db.pool.query("SELECT pg_terminate_backend($1)", [pid]);
    expect((await page).items).toEqual(done.slice(0, 1));
    await expect(late).rejects.toMatchObject({ serviceCode: "INTERNAL_ERROR", status: 503 });
  });

  test("does not delay a page without nextCursor", async () => {
    const { lock, late, done, forms, page } = await startBlockedCreate();
    expect((await forms.list({})).items).toEqual(done);
    await lock.query("COMMIT");
    await Promise.all([late, page]);
  });

  test("delays the page if it would be skipped only after other forms have left the list", async () => {
    const { owner, third, late, pid, done, forms, page } = await startBlockedCreate();
    late.catch(() => {});
    const lock = await blockCreatesOf(third.userId);
    const later = third.create(fixedStay(owner.listingId, { numberOfGuests: 4 }));
    await waitForBlocked(2);
    const next: FormV1[] = [];
    for (const numberOfGuests of [5, 6]) {
      next.push((await owner.create({ ...owner.body, numberOfGuests })).form);
    }
    // The forms of the page leave the list, and the create that it waits for fails.
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

  test("that takes too long makes the page fail with 503 and retryAfter", async () => {
    const { lock, late, page } = await startBlockedCreate();
    await expect(page).rejects.toMatchObject({ serviceCode: "INTERNAL_ERROR", status: 503, retryAfter: 1 });
    await lock.query("COMMIT");
    await late;
  });
});

describe("10,000 forms, 500 per creation time, and eight writers", () => {
  const WRITERS = 8;
  const CREATES_PER_WRITER = 100;

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

  let isWriting = true;

  /** Follows the list until the writers are done: in pages of `limit`, then one by one once it has caught up. */
  async function follow(limit: number): Promise<string[]> {
    const { forms } = asUser(reader, userId);
    const ids: string[] = [];
    let hasCaughtUp = false;
    for (let cursor: string | undefined; ; ) {
      const isLast = !isWriting;
      const page = await forms.list({ limit: hasCaughtUp ? 1 : limit, ...(cursor && { cursor }) });
      if (page.nextCursor || isLast) ids.push(...page.items.map(({ id }) => id));
      if (!page.nextCursor && isLast) return ids;
      hasCaughtUp ||= !page.nextCursor;
      cursor = page.nextCursor ?? cursor;
    }
  }

  test("a client that follows the list with cursors skips no form and gets none twice", {
    timeout: 360_000,
  }, async () => {
    expect(await formIdsInScope(services, userId)).toHaveLength(10_020);
    const written = Promise.all(
      writers.map(async ({ create, listingId }) => {
        for (let count = 1; count <= CREATES_PER_WRITER; count++) {
          await create(fixedStay(listingId, { numberOfGuests: count }));
        }
      }),
    ).finally(() => {
      isWriting = false;
    });
    const [, ...followed] = await Promise.all([written, follow(100), follow(61)]);
    const all = await formIdsInScope(services, userId);
    expect(all).toHaveLength(10_020 + WRITERS * CREATES_PER_WRITER);
    for (const ids of followed) expect(ids).toEqual(all);
  });
});
