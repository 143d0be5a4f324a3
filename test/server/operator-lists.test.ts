import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { Caller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";
import type { FormV1 } from "../../server/forms/schema.js";
import type { Listing } from "../../server/listings/schema.js";
import type { Page } from "../../server/paging.js";
import type { User } from "../../server/people/schema.js";
import {
  asOperator,
  asUser,
  catchErrorCode,
  catchRejectedFields,
  makeForm,
  makeListing,
  makeUser,
  openTestServices,
  setRole,
} from "../factories.js";

let services: Services;
let operator: Caller;
let ana: User;
let ben: User;
/** Ana's two listings, and Ben's, on which Ana is a reader. */
let listings: [Listing, Listing, Listing];
/** In the order in which they were made: on the first, second, third listing, and again. */
let forms: FormV1[];

beforeAll(async () => {
  services = await openTestServices();
  operator = asOperator(services);
  ana = await makeUser(services, { email: "ana@example.com", name: "Ana" });
  ben = await makeUser(services, { email: "ben@example.com" });
  listings = [
    await makeListing(services, ana.id, { title: "One" }),
    await makeListing(services, ana.id, { title: "Two" }),
    await makeListing(services, ben.id, { title: "Three" }),
  ];
  await setRole(services, listings[2].id, ana.id, "READER");
  forms = [];
  for (let index = 0; index < 6; index++) {
    const [{ id }, holder] = [listings[index % 3] ?? listings[0], index % 3 === 2 ? ben : ana];
    forms.push(await makeForm(services, holder.id, id, { guestEmail: "guest@example.com" }));
  }
});

/** All pages of a list, read with pages of this size. */
async function pages<Item>(
  size: number,
  read: (input: { limit: number; cursor?: string }) => Promise<Page<Item>>,
): Promise<Item[]> {
  const items: Item[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await read({ limit: size, ...(cursor && { cursor }) });
    expect(page.items.length).toBeLessThanOrEqual(size);
    items.push(...page.items);
    if (page.nextCursor === null) return items;
    cursor = page.nextCursor;
  }
}

const newest = <Item>(items: Item[]) => items.toReversed();
const on = (...indexes: number[]) => forms.filter((_, index) => indexes.includes(index % 3));

describe("forms.listAll", () => {
  test.each([1, 2, 4, 100])("all forms, newest first, in pages of %d", async (size) => {
    expect(await pages(size, operator.forms.listAll)).toEqual(newest(forms));
  });

  test.each([1, 100])(
    "those on one listing, or in one user's scope, or both, in pages of %d",
    async (size) => {
      const list = (filter: { listingId?: string; userId?: string }) =>
        pages(size, (page) => operator.forms.listAll({ ...page, ...filter }));
      const [one, , three] = listings;
      expect(await list({ listingId: one.id })).toEqual(newest(on(0)));
      expect(await list({ userId: ana.id.toUpperCase() })).toEqual(newest(on(0, 1)));
      expect(await list({ userId: ben.id })).toEqual(newest(on(2)));
      expect(await list({ userId: ana.id, listingId: one.id })).toEqual(newest(on(0)));
      // Ana only reads it, so her keys do not see it.
      expect(await list({ userId: ana.id, listingId: three.id })).toEqual([]);
      expect(await list({ userId: randomUUID() })).toEqual([]);
      expect(await list({ listingId: randomUUID() })).toEqual([]);
    },
  );

  test("shows the public form and no address, as forms.getAny does", async () => {
    const [form] = forms;
    const shown = await operator.forms.getAny({ id: form?.id.toUpperCase() ?? "" });
    expect(shown).toEqual(await asUser(services, ana.id).forms.get({ id: form?.id ?? "" }));
    expect(JSON.stringify(await operator.forms.listAll({}))).not.toMatch(/guest@|email/i);
    for (const id of [randomUUID(), "x", ""]) {
      expect(await catchErrorCode(operator.forms.getAny({ id }))).toBe("RESOURCE_NOT_FOUND");
    }
  });
});

describe("listings.listAll", () => {
  test.each([1, 100])(
    "all listings, or those in one user's scope, newest first, in pages of %d",
    async (size) => {
      const list = (filter: { userId?: string }) =>
        pages(size, (page) => operator.listings.listAll({ ...page, ...filter }));
      expect(await list({})).toEqual(newest(listings));
      expect(await list({ userId: ana.id })).toEqual(newest(listings.slice(0, 2)));
      expect(await list({ userId: randomUUID() })).toEqual([]);
    },
  );

  test("listings.getAny gives a listing whoever has it in scope", async () => {
    for (const listing of listings)
      expect(await operator.listings.getAny({ id: listing.id })).toEqual(listing);
    expect(await catchErrorCode(operator.listings.getAny({ id: randomUUID() }))).toBe("RESOURCE_NOT_FOUND");
  });
});

describe("users.list and members.list", () => {
  test.each([1, 100])("all users, newest first, in pages of %d", async (size) => {
    expect(await pages(size, operator.users.list)).toEqual([ben, ana]);
  });

  test.each([1, 100])("the members of a listing, or a user's memberships, in pages of %d", async (size) => {
    const list = (filter: { listingId?: string; userId?: string }) =>
      pages(size, (page) => operator.members.list({ ...page, ...filter }));
    const [one, two, three] = listings;
    const member = (listing: Listing, user: User, role: string) => ({
      listingId: listing.id,
      listingTitle: listing.title,
      userId: user.id,
      userEmail: user.email,
      role,
    });
    const ofThree = [member(three, ana, "READER"), member(three, ben, "OWNER")];
    const byUser = (a: { userId: string }, b: { userId: string }) => (a.userId < b.userId ? -1 : 1);
    expect(await list({ listingId: three.id })).toEqual(ofThree.sort(byUser));
    expect(await list({ userId: ana.id })).toEqual([
      member(one, ana, "OWNER"),
      member(two, ana, "OWNER"),
      member(three, ana, "READER"),
    ]);
    for (const unknown of [{ listingId: randomUUID() }, { userId: randomUUID() }]) {
      expect(await list(unknown)).toEqual([]);
    }
  });

  test("a list of members is of either a listing or a user", async () => {
    expect(await catchRejectedFields(operator.members.list({}))).toEqual(["listingId"]);
    const both = { listingId: listings[0].id, userId: ana.id };
    expect(await catchRejectedFields(operator.members.list(both))).toEqual(["listingId"]);
  });
});

test("a cursor is good for its own list and filter alone", async () => {
  const [{ id: listingId }] = listings;
  const next = async ({ nextCursor }: Page<unknown>) => nextCursor ?? expect.fail("there is no next page");
  const user = asUser(services, ana.id);
  const cursors = {
    forms: await next(await operator.forms.listAll({ limit: 1 })),
    "forms of a user": await next(await operator.forms.listAll({ limit: 1, userId: ana.id })),
    "forms on a listing": await next(await operator.forms.listAll({ limit: 1, listingId })),
    "forms of a user on a listing": await next(
      await operator.forms.listAll({ limit: 1, listingId, userId: ana.id }),
    ),
    listings: await next(await operator.listings.listAll({ limit: 1 })),
    "listings of a user": await next(await operator.listings.listAll({ limit: 1, userId: ana.id })),
    users: await next(await operator.users.list({ limit: 1 })),
    members: await next(await operator.members.list({ limit: 1, listingId: listings[2].id })),
    memberships: await next(await operator.members.list({ limit: 1, userId: ana.id })),
    "public forms": await next(await user.forms.list({ limit: 1 })),
    "public forms on a listing": await next(await user.forms.list({ limit: 1, listingId })),
    "public listings": await next(await user.listings.list({ limit: 1 })),
  };
  const read: Record<keyof typeof cursors, (cursor: string) => Promise<unknown>> = {
    forms: (cursor) => operator.forms.listAll({ cursor }),
    "forms of a user": (cursor) => operator.forms.listAll({ cursor, userId: ana.id }),
    "forms on a listing": (cursor) => operator.forms.listAll({ cursor, listingId }),
    "forms of a user on a listing": (cursor) => operator.forms.listAll({ cursor, listingId, userId: ana.id }),
    listings: (cursor) => operator.listings.listAll({ cursor }),
    "listings of a user": (cursor) => operator.listings.listAll({ cursor, userId: ana.id }),
    users: (cursor) => operator.users.list({ cursor }),
    members: (cursor) => operator.members.list({ cursor, listingId: listings[2].id }),
    memberships: (cursor) => operator.members.list({ cursor, userId: ana.id }),
    "public forms": (cursor) => user.forms.list({ cursor }),
    "public forms on a listing": (cursor) => user.forms.list({ cursor, listingId }),
    "public listings": (cursor) => user.listings.list({ cursor }),
  };
  const answers: Record<string, string> = {};
  const expected: Record<string, string> = {};
  for (const [list, call] of Object.entries(read)) {
    for (const [of, cursor] of Object.entries(cursors)) {
      const key = `a cursor of ${of} for ${list}`;
      answers[key] = await call(cursor).then(
        () => "read",
        ({ serviceCode }) => serviceCode,
      );
      expected[key] = list === of ? "read" : "INVALID_CURSOR";
    }
  }
  expect(answers).toEqual(expected);
});
