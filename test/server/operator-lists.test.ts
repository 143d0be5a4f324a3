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
  makeKey,
  makeListing,
  makeUser,
  openTestServices,
  setRole,
  type TestKey,
} from "../support/factories.js";

let services: Services;
let operator: Caller;
let ana: User;
let ben: User;
/** Two listings of Ana, and one of Ben on which Ana is a reader. */
let listings: [Listing, Listing, Listing];
/** In creation order, on the first, second and third listing in turn. */
let forms: FormV1[];
/** In creation order; two of Ana, one of Ben. */
let keys: TestKey[];

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
    const [{ id }, user] = [listings[index % 3] ?? listings[0], index % 3 === 2 ? ben : ana];
    forms.push(await makeForm(services, user.id, id, { guestEmail: "guest@example.com" }));
  }
  keys = [];
  for (const { id } of [ana, ben, ana]) keys.push(await makeKey(services, id));
});

/** Reads all pages of a list and returns the items. */
async function collectItems<Item>(
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

const newestFirst = <Item>(items: Item[]) => items.toReversed();
const formsOnListings = (...indexes: number[]) => forms.filter((_, index) => indexes.includes(index % 3));

describe("forms.listAll", () => {
  test.each([1, 2, 4, 100])("returns all forms, newest first, in pages of %d", async (size) => {
    expect(await collectItems(size, operator.forms.listAll)).toEqual(newestFirst(forms));
  });

  test.each([1, 100])("filters by listing, by user's scope or by both, in pages of %d", async (size) => {
    const list = (filter: { listingId?: string; userId?: string }) =>
      collectItems(size, (page) => operator.forms.listAll({ ...page, ...filter }));
    const [one, , three] = listings;
    expect(await list({ listingId: one.id })).toEqual(newestFirst(formsOnListings(0)));
    expect(await list({ userId: ana.id.toUpperCase() })).toEqual(newestFirst(formsOnListings(0, 1)));
    expect(await list({ userId: ben.id })).toEqual(newestFirst(formsOnListings(2)));
    expect(await list({ userId: ana.id, listingId: one.id })).toEqual(newestFirst(formsOnListings(0)));
    // Ana is only a reader, so the listing is out of her scope.
    expect(await list({ userId: ana.id, listingId: three.id })).toEqual([]);
    expect(await list({ userId: randomUUID() })).toEqual([]);
    expect(await list({ listingId: randomUUID() })).toEqual([]);
  });

  test("forms.listAll and forms.getAny return the public form without the address", async () => {
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
    "returns all listings or those in a user's scope, newest first, in pages of %d",
    async (size) => {
      const list = (filter: { userId?: string }) =>
        collectItems(size, (page) => operator.listings.listAll({ ...page, ...filter }));
      expect(await list({})).toEqual(newestFirst(listings));
      expect(await list({ userId: ana.id })).toEqual(newestFirst(listings.slice(0, 2)));
      expect(await list({ userId: randomUUID() })).toEqual([]);
    },
  );

  test("listings.getAny returns every listing", async () => {
    for (const listing of listings)
      expect(await operator.listings.getAny({ id: listing.id })).toEqual(listing);
    expect(await catchErrorCode(operator.listings.getAny({ id: randomUUID() }))).toBe("RESOURCE_NOT_FOUND");
  });
});

describe("users.list and members.list", () => {
  test.each([1, 100])("users.list returns all users, newest first, in pages of %d", async (size) => {
    expect(await collectItems(size, operator.users.list)).toEqual([ben, ana]);
  });

  test.each([1, 100])(
    "members.list returns the members of a listing or the memberships of a user, in pages of %d",
    async (size) => {
      const list = (filter: { listingId?: string; userId?: string }) =>
        collectItems(size, (page) => operator.members.list({ ...page, ...filter }));
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
    },
  );

  test("members.list requires either listingId or userId, and rejects both", async () => {
    expect(await catchRejectedFields(operator.members.list({}))).toEqual(["listingId"]);
    const both = { listingId: listings[0].id, userId: ana.id };
    expect(await catchRejectedFields(operator.members.list(both))).toEqual(["listingId"]);
  });
});

describe("keys.list and notifications.list", () => {
  test.each([1, 2, 100])(
    "keys.list returns all keys or a user's, oldest first, in pages of %d",
    async (size) => {
      const list = (filter: { userId?: string }) =>
        collectItems(size, (page) => operator.keys.list({ ...page, ...filter }));
      const ids = async (filter: { userId?: string }) => (await list(filter)).map(({ id }) => id);
      expect(await ids({})).toEqual(keys.map(({ id }) => id));
      expect(await ids({ userId: ana.id.toUpperCase() })).toEqual(
        keys.filter(({ userId }) => userId === ana.id).map(({ id }) => id),
      );
      expect(await ids({ userId: randomUUID() })).toEqual([]);
    },
  );

  test.each([1, 2, 100])(
    "notifications.list returns the unsent ones or those in a state, oldest first, in pages of %d",
    async (size) => {
      const list = async (filter: { state?: "waiting" | "failed" | "expired" }) =>
        (await collectItems(size, (page) => operator.notifications.list({ ...page, ...filter }))).map(
          ({ formId, state }) => ({ formId, state }),
        );
      const [first, sent, failed, ...rest] = forms;
      const waiting = [first, ...rest].map((form) => ({ formId: form?.id, state: "waiting" }));
      // Some were created in the same millisecond, and the ids get another digit among them.
      await services.db.pool.query(
        `UPDATE notifications SET id = id + 7, created_at = CASE WHEN form_id = ANY($1) THEN now() ELSE now() - interval '1 day' END`,
        [rest.map(({ id }) => id)],
      );
      await services.db.pool.query("UPDATE notifications SET state = 'sent' WHERE form_id = $1", [sent?.id]);
      await services.db.pool.query("UPDATE notifications SET state = 'failed' WHERE form_id = $1", [
        failed?.id,
      ]);
      const given = { formId: failed?.id, state: "failed" };
      expect(await list({})).toEqual([waiting[0], given, ...waiting.slice(1)]);
      expect(await list({ state: "waiting" })).toEqual(waiting);
      expect(await list({ state: "failed" })).toEqual([given]);
      expect(await list({ state: "expired" })).toEqual([]);
      await services.db.pool.query("UPDATE notifications SET state = 'waiting'");
    },
  );
});

test("a cursor is valid only for its own list and filter", async () => {
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
    keys: await next(await operator.keys.list({ limit: 1 })),
    "keys of a user": await next(await operator.keys.list({ limit: 1, userId: ana.id })),
    notifications: await next(await operator.notifications.list({ limit: 1 })),
    "notifications in a state": await next(await operator.notifications.list({ limit: 1, state: "waiting" })),
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
    keys: (cursor) => operator.keys.list({ cursor }),
    "keys of a user": (cursor) => operator.keys.list({ cursor, userId: ana.id }),
    notifications: (cursor) => operator.notifications.list({ cursor }),
    "notifications in a state": (cursor) => operator.notifications.list({ cursor, state: "waiting" }),
    "public forms": (cursor) => user.forms.list({ cursor }),
    "public forms on a listing": (cursor) => user.forms.list({ cursor, listingId }),
    "public listings": (cursor) => user.listings.list({ cursor }),
  };
  const results: Record<string, string> = {};
  const expected: Record<string, string> = {};
  for (const [list, call] of Object.entries(read)) {
    for (const [of, cursor] of Object.entries(cursors)) {
      const key = `a cursor of ${of} for ${list}`;
      results[key] = await call(cursor).then(
        () => "read",
        ({ serviceCode }) => serviceCode,
      );
      expected[key] = list === of ? "read" : "INVALID_CURSOR";
    }
  }
  expect(results).toEqual(expected);
});
