import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Caller } from "../../server/caller.js";
import { openTestCore } from "../support/core.js";
import { catchServiceError } from "../support/factories.js";
import { fixedStay } from "../support/stays.js";

const { owner, operator, setRole, makeKey, makeUser, asUser, asKey, makeOwner } = await openTestCore();
const { language: _language, ...listing } = await operator.listings.getAny({ id: owner.listingId });
const form = await owner.addForm();

const notFound = (resource: "form" | "listing") => ({
  serviceCode: "RESOURCE_NOT_FOUND",
  code: "NOT_FOUND",
  status: 404,
  message: `There is no such ${resource}, or you have no access to it: check its id.`,
  errors: undefined,
  retryAfter: undefined,
});
const NO_FORM = notFound("form");
const NO_LISTING = notFound("listing");

const EMPTY_PAGE = { items: [], nextCursor: null };

/** Every update has another number of guests, so that each writes. */
let guests = 2;

/** Fails unless every operation finds the listing and its form. */
async function expectInScope(caller: Caller) {
  expect(await caller.listings.get({ id: listing.id })).toEqual(listing);
  expect((await caller.listings.list({})).items).toContainEqual(listing);
  expect((await caller.forms.get({ id: form.id })).id).toBe(form.id);
  const ids = async (filter: { listingId?: string }) => (await caller.forms.list(filter)).items.map(({ id }) => id);
  expect(await ids({})).toContain(form.id);
  expect(await ids({ listingId: listing.id })).toContain(form.id);
  const change = fixedStay(listing.id, { numberOfGuests: ++guests });
  const updated = await caller.forms.update({ id: form.id, ...change });
  expect(updated).toMatchObject({ id: form.id, numberOfGuests: guests });
  const created = await caller.forms.create(fixedStay(listing.id, { numberOfGuests: 99 }));
  expect(created.listingId).toBe(listing.id);
}

/** Returns the result of every operation for these ids; all but the page must fail. */
async function resultsFor(caller: Caller, listingId: string, formId: string) {
  const body = { ...fixedStay(listingId), guestEmail: "guest@example.com" };
  return {
    listing: await catchServiceError(caller.listings.get({ id: listingId })),
    form: await catchServiceError(caller.forms.get({ id: formId })),
    page: await caller.forms.list({ listingId }),
    create: await catchServiceError(caller.forms.create(body)),
    update: await catchServiceError(caller.forms.update({ id: formId, ...body })),
  };
}

/** Fails unless the listing and its form behave as if they did not exist. */
async function expectOutOfScope(caller: Caller) {
  const results = await resultsFor(caller, listing.id, form.id);
  expect(results).toEqual(await resultsFor(caller, randomUUID(), randomUUID()));
  expect(results).toEqual({
    listing: NO_LISTING,
    form: NO_FORM,
    page: EMPTY_PAGE,
    create: NO_LISTING,
    update: NO_FORM,
  });
}

describe("the scope", () => {
  test("an owner of a listing has it and its forms in scope", () => expectInScope(asUser(owner.userId)));

  test("for a reader, a stranger and an unknown user, the listing and its forms behave as if they did not exist", async () => {
    const [reader, stranger] = [await makeUser(), await makeUser()];
    await setRole(listing.id, reader.id, "READER");
    for (const userId of [reader.id, stranger.id, randomUUID()]) {
      const caller = asUser(userId);
      await expectOutOfScope(caller);
      expect(await caller.forms.list({})).toEqual(EMPTY_PAGE);
      expect(await caller.listings.list({})).toEqual(EMPTY_PAGE);
    }
    await expectOutOfScope(asKey(await makeKey(reader.id)));
  });

  test("for an owner of another listing, the listing and its forms behave as if they did not exist", async () => {
    const other = await makeOwner();
    const ownForm = await other.addForm();
    const caller = asUser(other.userId);
    await expectOutOfScope(caller);
    expect((await caller.forms.list({})).items.map(({ id }) => id)).toEqual([ownForm.id]);
    const own = await caller.listings.get({ id: other.listingId });
    expect((await caller.listings.list({})).items).toEqual([own]);
  });

  test("ids are accepted in upper case and returned in lower case", async () => {
    const caller = asUser(owner.userId);
    expect((await caller.forms.get({ id: form.id.toUpperCase() })).id).toBe(form.id);
    expect(await caller.listings.get({ id: listing.id.toUpperCase() })).toEqual(listing);
    const updated = await caller.forms.update({ id: form.id.toUpperCase(), ...fixedStay(listing.id.toUpperCase()) });
    expect(updated).toMatchObject({ id: form.id, listingId: listing.id });
    const page = await caller.forms.list({ listingId: listing.id.toUpperCase() });
    expect(page.items.map(({ id }) => id)).toContain(form.id);
  });
});

test("an update requires the form and the target listing in scope: an out-of-scope form is reported first, then an out-of-scope listing, and nothing changes", async () => {
  const user = await makeOwner();
  const other = await makeOwner();
  const readable = await owner.addListing();
  await setRole(readable.id, user.userId, "READER");
  const [ownForm, foreignForm] = [await user.addForm(), await other.addForm()];
  const move = (id: string, target: string) => user.forms.update({ id, ...fixedStay(target) });
  for (const target of [other.listingId, readable.id, randomUUID()]) {
    expect(await catchServiceError(move(ownForm.id, target))).toEqual(NO_LISTING);
  }
  for (const target of [user.listingId, other.listingId, randomUUID()]) {
    expect(await catchServiceError(move(foreignForm.id, target))).toEqual(NO_FORM);
  }
  expect(await user.forms.get({ id: ownForm.id })).toEqual(ownForm);
  expect(await other.forms.get({ id: foreignForm.id })).toEqual(foreignForm);

  const second = await user.addListing();
  const moved = await move(ownForm.id, second.id);
  expect(moved).toMatchObject({ id: ownForm.id, listingId: second.id, publicId: ownForm.publicId });
  expect((await user.forms.list({ listingId: user.listingId })).items).toEqual([]);
  expect((await user.forms.list({ listingId: second.id })).items).toEqual([moved]);
});

test("every change of a role, including removal, applies immediately to the user and their keys", async () => {
  const member = await makeUser();
  const key = await makeKey(member.id);
  const callers = [asUser(member.id), asKey(key)];
  for (const role of ["WRITER", "READER", "OWNER", "NONE", "WRITER"] as const) {
    await setRole(listing.id, member.id, role);
    for (const caller of callers) {
      if (role === "WRITER" || role === "OWNER") await expectInScope(caller);
      else await expectOutOfScope(caller);
    }
  }
});
