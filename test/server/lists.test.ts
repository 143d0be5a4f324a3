import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  expectPagingReturnsEveryForm,
  formIdsInScope,
  insertListingsWithForms,
  listingIdsInScope,
  makeUserWithForms,
  readAllPages,
} from "../support/bulk.js";
import { asUser, makeUser, openTestServices } from "../support/factories.js";
import { fixedStay } from "../support/stays.js";

describe("paging returns every item in scope exactly once, in the order of (created_at, id)", async () => {
  const services = await openTestServices();
  const usersByScope = new Map<number, string>();
  const SCOPE_SIZES = [0, 1, 49, 50, 51, 120];
  // All within 100 ms, so the users' forms interleave and often have equal times.
  for (const size of SCOPE_SIZES) {
    const data = { listings: size, formsPerListing: size === 1 ? 230 : 4, distinctTimes: 100 };
    const userId = await makeUserWithForms(services, data);
    const outOfScope = { ...data, listings: 3, formsPerListing: 20, role: "READER" } as const;
    await insertListingsWithForms(services, userId, outOfScope);
    usersByScope.set(size, userId);
  }
  const userWith = (size: number): string => usersByScope.get(size) ?? randomUUID();

  test.each(SCOPE_SIZES)("forms of %d listings", async (size) => {
    expect(await formIdsInScope(services, userWith(size))).toHaveLength(size === 1 ? 230 : size * 4);
    await expectPagingReturnsEveryForm(services, userWith(size), [7, 50, 100]);
  });

  test.each(SCOPE_SIZES)("%d listings", async (size) => {
    const expected = await listingIdsInScope(services, userWith(size));
    expect(expected).toHaveLength(size);
    const { listings } = asUser(services, userWith(size));
    for (const limit of [1, 50, 100]) {
      expect(await readAllPages(limit, (input) => listings.list(input))).toEqual(expected);
    }
  });

  test.each([
    ["1 item for limit 0", 0, 1],
    ["1 item for limit -7", -7, 1],
    ["1 item for the smallest limit", Number.MIN_SAFE_INTEGER, 1],
    ["3 items for limit 3", 3, 3],
    ["50 items by default", undefined, 50],
    ["100 items for limit 100", 100, 100],
    ["100 items for limit 101", 101, 100],
    ["100 items for the largest limit", Number.MAX_SAFE_INTEGER, 100],
  ])("a page has %s", async (_, limit, length) => {
    const { forms, listings } = asUser(services, userWith(120));
    const [listingId] = await listingIdsInScope(services, userWith(1));
    const filtered = asUser(services, userWith(1)).forms.list({ listingId, limit });
    for (const page of [forms.list({ limit }), listings.list({ limit }), filtered]) {
      expect((await page).items).toHaveLength(length);
    }
  });

  test("forms filtered by listingId", async () => {
    const userId = userWith(51);
    const { forms } = asUser(services, userId);
    await insertListingsWithForms(services, userId, { listings: 1, formsPerListing: 30, distinctTimes: 3 });
    const listings = await listingIdsInScope(services, userId);
    for (const listingId of [listings[0] ?? "", listings.at(-1) ?? ""]) {
      const expected = await formIdsInScope(services, userId, listingId);
      for (const limit of [1, 4, 100]) {
        const ids = await readAllPages(limit, (input) => forms.list({ ...input, listingId }));
        expect(ids).toEqual(expected);
      }
    }
  });

  test("a listingId without forms, out of scope or unknown returns an empty page", async () => {
    const { forms } = asUser(services, userWith(49));
    const empty = await makeUser(services);
    const [theirs = ""] = await listingIdsInScope(services, userWith(50));
    await insertListingsWithForms(services, empty.id, { listings: 1, formsPerListing: 0, distinctTimes: 1 });
    const [bare = ""] = await listingIdsInScope(services, empty.id);
    const page = { items: [], nextCursor: null };
    expect(await asUser(services, empty.id).forms.list({ listingId: bare })).toEqual(page);
    expect(await forms.list({ listingId: theirs })).toEqual(page);
    expect(await forms.list({ listingId: randomUUID() })).toEqual(page);
  });

  test("an updated form keeps its place in the list", async () => {
    const { forms } = asUser(services, userWith(49));
    const { items } = await forms.list({ limit: 3 });
    const { id, listingId } = items[0] ?? expect.fail("there is no form");
    await forms.update({ id, ...fixedStay(listingId) });
    const after = (await forms.list({ limit: 3 })).items;
    expect(after.map((form) => form.id)).toEqual(items.map((form) => form.id));
  });

  test("9,000 forms of another user between the user's own do not end the list early", async () => {
    const stranger = await makeUser(services);
    const data = { listings: 10, formsPerListing: 900, distinctTimes: 1000 };
    await insertListingsWithForms(services, stranger.id, { ...data, startMs: -2000 });
    await insertListingsWithForms(services, stranger.id, { ...data, startMs: 200 });
    // The user's forms are before and after 9,000 forms of the stranger.
    for (const size of [50, 51, 120]) {
      const late = { listings: 2, formsPerListing: 60, distinctTimes: 50, startMs: 1500 };
      await insertListingsWithForms(services, userWith(size), late);
      await expectPagingReturnsEveryForm(services, userWith(size), [9, 100]);
    }
    await expectPagingReturnsEveryForm(services, userWith(1), [100]);
  });
});
