import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { asUser, makeUser, openTestServices } from "../factories.js";
import {
  expectPagingReturnsEveryForm,
  formIdsInScope,
  insertListingsWithForms,
  listingIdsInScope,
  makeUserWithForms,
  readAllPages,
} from "./bulk.js";

describe("paging gives every entry in scope once, in the order of (created_at, id)", () => {
  let services: Services;
  const holders = new Map<number, string>();
  const SCOPES = [0, 1, 49, 50, 51, 120];

  beforeAll(async () => {
    services = await openTestServices();
    // All in the same hundred milliseconds, so that the holders' forms are mixed and often tie.
    for (const size of SCOPES) {
      const crowd = { listings: size, formsPerListing: size === 1 ? 230 : 4, distinctTimes: 100 };
      const userId = await makeUserWithForms(services, crowd);
      await insertListingsWithForms(services, userId, {
        ...crowd,
        listings: 3,
        formsPerListing: 20,
        role: "READER",
      });
      holders.set(size, userId);
    }
  });

  const holder = (size: number): string => holders.get(size) ?? randomUUID();

  test.each(SCOPES)("forms of %d listings", async (size) => {
    expect(await formIdsInScope(services, holder(size))).toHaveLength(size === 1 ? 230 : size * 4);
    await expectPagingReturnsEveryForm(services, holder(size), [7, 50, 100]);
  });

  test.each(SCOPES)("%d listings", async (size) => {
    const expected = await listingIdsInScope(services, holder(size));
    expect(expected).toHaveLength(size);
    const { listings } = asUser(services, holder(size));
    for (const limit of [1, 50, 100]) {
      expect(await readAllPages(limit, (input) => listings.list(input))).toEqual(expected);
    }
  });

  test("50 are a page where no limit is given", async () => {
    const caller = asUser(services, holder(120));
    expect((await caller.forms.list({})).items).toHaveLength(50);
    expect((await caller.listings.list({})).items).toHaveLength(50);
  });

  test("forms of one listing", async () => {
    const { forms } = asUser(services, holder(51));
    const [listingId = ""] = await listingIdsInScope(services, holder(51));
    await insertListingsWithForms(services, holder(51), {
      listings: 1,
      formsPerListing: 30,
      distinctTimes: 3,
    });
    for (const id of [listingId, (await listingIdsInScope(services, holder(51))).at(-1) ?? ""]) {
      const expected = await formIdsInScope(services, holder(51), id);
      for (const limit of [1, 4, 100]) {
        expect(await readAllPages(limit, (input) => forms.list({ ...input, listingId: id }))).toEqual(
          expected,
        );
      }
    }
  });

  test("a listing in scope without forms, or out of scope, has an empty page", async () => {
    const { forms } = asUser(services, holder(49));
    const empty = await makeUser(services);
    const [theirs = ""] = await listingIdsInScope(services, holder(50));
    await insertListingsWithForms(services, empty.id, { listings: 1, formsPerListing: 0, distinctTimes: 1 });
    const [bare = ""] = await listingIdsInScope(services, empty.id);
    const page = { items: [], nextCursor: null };
    expect(await asUser(services, empty.id).forms.list({ listingId: bare })).toEqual(page);
    expect(await forms.list({ listingId: theirs })).toEqual(page);
    expect(await forms.list({ listingId: randomUUID() })).toEqual(page);
  });

  test("many forms of others before the holder's do not end the list early", async () => {
    const stranger = await makeUser(services);
    const crowd = { listings: 10, formsPerListing: 900, distinctTimes: 1000 };
    await insertListingsWithForms(services, stranger.id, { ...crowd, startMs: -2000 });
    await insertListingsWithForms(services, stranger.id, { ...crowd, startMs: 200 });
    // So the holder's are early, late, and nine thousand entries apart.
    for (const size of [50, 51, 120]) {
      const late = { listings: 2, formsPerListing: 60, distinctTimes: 50, startMs: 1500 };
      await insertListingsWithForms(services, holder(size), late);
      await expectPagingReturnsEveryForm(services, holder(size), [9, 100]);
    }
    await expectPagingReturnsEveryForm(services, holder(1), [100]);
  });
});
