import { createHmac, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import {
  expectPagingReturnsEveryForm,
  formIdsInScope,
  insertListingsWithForms,
  listingIdsInScope,
  makeUserWithForms,
  readAllPages,
} from "../support/bulk.js";
import { openTestCore } from "../support/core.js";
import { asUser, catchErrorCode, makeForm, makeUser, TEST_SECRET, withSecrets } from "../support/factories.js";

const { services, owner, sql, setRole, makeKey, asKey, makeOwner } = await openTestCore();

describe("paging returns every item in scope exactly once, in the order of (created_at, id)", async () => {
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

const caller = asUser(services, owner.userId);
const listings = [owner.listingId, (await owner.addListing()).id, (await owner.addListing()).id] as const;
const forms: FormV1[] = [];
for (const index of [0, 1, 0, 1, 0, 1]) {
  forms.push(await makeForm(services, owner.userId, listings[index] ?? ""));
}
const nextOf = ({ nextCursor }: { nextCursor: string | null }) => nextCursor ?? expect.fail("no next page");
const formsCursor = nextOf(await caller.forms.list({ limit: 2 }));
const listingsCursor = nextOf(await caller.listings.list({ limit: 1 }));
const filteredCursor = nextOf(await caller.forms.list({ limit: 1, listingId: listings[0] }));

const ids = ({ items }: { items: { id: string }[] }) => items.map(({ id }) => id);
const formIds = forms.map(({ id }) => id);
const EMPTY_PAGE = { items: [], nextCursor: null };

test("the last page has no nextCursor, even if it is full", async () => {
  expect((await caller.forms.list({ limit: 6 })).nextCursor).toBeNull();
  expect((await caller.forms.list({ limit: 4, cursor: formsCursor })).nextCursor).toBeNull();
  expect((await caller.listings.list({ limit: 3 })).nextCursor).toBeNull();
});

describe("a cursor", () => {
  test("continues where the page ended, with any limit and for any principal", async () => {
    const rest = formIds.slice(2);
    expect(ids(await caller.forms.list({ cursor: formsCursor }))).toEqual(rest);
    expect(ids(await caller.forms.list({ cursor: formsCursor, limit: 1 }))).toEqual(rest.slice(0, 1));
    const key = await makeKey(owner.userId, { mode: "READ_ONLY" });
    expect(ids(await asKey(key).forms.list({ cursor: formsCursor, limit: 100 }))).toEqual(rest);
    const filtered = await caller.forms.list({ cursor: filteredCursor, listingId: listings[0] });
    expect(ids(filtered)).toEqual([formIds[2], formIds[4]]);
    const upper = { cursor: filteredCursor, listingId: listings[0].toUpperCase() };
    expect(await caller.forms.list(upper)).toEqual(filtered);
    expect(ids(await caller.listings.list({ cursor: listingsCursor }))).toEqual(listings.slice(1));
  });

  test("of another key holder works, within the scope of the sender", async () => {
    const other = await makeOwner();
    await setRole(listings[1], other.userId, "WRITER");
    const form = await other.addForm();
    const key = await makeKey(other.userId);
    const page = await asKey(key).forms.list({ cursor: formsCursor });
    expect(ids(page)).toEqual([formIds[3], formIds[5], form.id]);
    const stranger = asUser(services, randomUUID());
    expect(await stranger.forms.list({ cursor: formsCursor })).toEqual(EMPTY_PAGE);
    const filter = { cursor: filteredCursor, listingId: listings[0] };
    expect(await stranger.forms.list(filter)).toEqual(EMPTY_PAGE);
  });

  test("works after the form it points at was deleted", async () => {
    const other = await makeOwner();
    const [first, ...others] = [await other.addForm(), await other.addForm(), await other.addForm()];
    const cursor = nextOf(await other.forms.list({ limit: 1 }));
    await sql("DELETE FROM forms WHERE id = $1", first?.id);
    expect(ids(await other.forms.list({ cursor }))).toEqual(others.map(({ id }) => id));
  });

  test("is invalid if any of its characters is changed, dropped or doubled, or if it is encoded differently", async () => {
    const bytes = Buffer.from(formsCursor, "base64url");
    const others = new Set([bytes.toString("base64"), bytes.toString("hex"), `${formsCursor}=`, ` ${formsCursor}`]);
    for (const [index, at] of [...formsCursor].entries()) {
      const [head, tail] = [formsCursor.slice(0, index), formsCursor.slice(index + 1)];
      for (const other of ["", "A", "=", "\n", at + at, at.toLowerCase(), at.toUpperCase()])
        others.add(head + other + tail);
    }
    // The last character has unused bits, so other characters decode to the same bytes.
    for (const last of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef") others.add(formsCursor.slice(0, -1) + last);
    others.delete(formsCursor);
    for (const cursor of ["", ...others]) {
      expect([cursor, await catchErrorCode(caller.forms.list({ cursor }))]).toEqual([cursor, "INVALID_CURSOR"]);
    }
  });

  test("is valid while APP_SECRETS lists the secret that signed it, and invalid afterwards", async () => {
    const newSecret = "n".repeat(32);
    const rotated = asUser(withSecrets(services, newSecret, TEST_SECRET), owner.userId).forms;
    const withoutOld = asUser(withSecrets(services, newSecret), owner.userId).forms;
    const page = await rotated.list({ cursor: formsCursor, limit: 2 });
    expect(ids(page)).toEqual(formIds.slice(2, 4));
    const cursor = nextOf(page);
    expect(await catchErrorCode(caller.forms.list({ cursor }))).toBe("INVALID_CURSOR");
    expect(await catchErrorCode(withoutOld.list({ cursor: formsCursor }))).toBe("INVALID_CURSOR");
    expect(ids(await withoutOld.list({ cursor }))).toEqual(formIds.slice(4));
  });

  test("of another version is invalid, even with a valid signature", async () => {
    const signed = (version: number) => {
      const body = Buffer.from(formsCursor, "base64url").subarray(0, 25);
      body.writeUInt8(version, 0);
      const mac = createHmac("sha256", services.keyring.cursor[0]).update("forms::").update(body).digest();
      return Buffer.concat([body, mac.subarray(0, 16)]).toString("base64url");
    };
    expect(signed(1)).toBe(formsCursor);
    for (const version of [0, 2, 255]) {
      expect(await catchErrorCode(caller.forms.list({ cursor: signed(version) }))).toBe("INVALID_CURSOR");
    }
  });
});
