import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { Caller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";
import type { FormV1 } from "../../server/forms/schema.js";
import type { Listing } from "../../server/listings/schema.js";
import {
  asKey,
  asUser,
  catchServiceError,
  fixedStay,
  makeForm,
  makeKey,
  makeListing,
  makeUser,
  openTestServices,
  setRole,
} from "../factories.js";

let services: Services;
let ownerId: string;
let listing: Listing;
let form: FormV1;

beforeAll(async () => {
  services = await openTestServices();
  ownerId = (await makeUser(services)).id;
  listing = await makeListing(services, ownerId);
  form = await makeForm(services, ownerId, listing.id);
});

const notFound = (asked: "form" | "listing") => ({
  serviceCode: "RESOURCE_NOT_FOUND",
  code: "NOT_FOUND",
  status: 404,
  message: `There is no such ${asked}, or you have no access to it: check its id.`,
  errors: undefined,
  retryAfter: undefined,
});
const NO_FORM = notFound("form");
const NO_LISTING = notFound("listing");

const EMPTY = { items: [], nextCursor: null };

/** Whether each operation finds the listing and its form. */
async function expectInScope(caller: Caller) {
  expect(await caller.listings.get({ id: listing.id })).toEqual(listing);
  expect((await caller.listings.list({})).items).toContainEqual(listing);
  expect((await caller.forms.get({ id: form.id })).id).toBe(form.id);
  const ids = async (filter: { listingId?: string }) =>
    (await caller.forms.list(filter)).items.map(({ id }) => id);
  expect(await ids({})).toContain(form.id);
  expect(await ids({ listingId: listing.id })).toContain(form.id);
  expect((await caller.forms.update({ id: form.id, ...fixedStay(listing.id) })).id).toBe(form.id);
  const created = await caller.forms.create(fixedStay(listing.id, { numberOfGuests: 99 }));
  expect(created.listingId).toBe(listing.id);
}

/** The same calls, about something that does not exist at all. */
async function answersAbout(caller: Caller, listingId: string, formId: string) {
  const own = { ...fixedStay(listingId), guestEmail: "guest@example.com" };
  return {
    listing: await catchServiceError(caller.listings.get({ id: listingId })),
    form: await catchServiceError(caller.forms.get({ id: formId })),
    page: await caller.forms.list({ listingId }),
    create: await catchServiceError(caller.forms.create(own)),
    update: await catchServiceError(caller.forms.update({ id: formId, ...own })),
  };
}

async function expectNothing(caller: Caller) {
  const seen = await answersAbout(caller, listing.id, form.id);
  expect(seen).toEqual(await answersAbout(caller, randomUUID(), randomUUID()));
  expect(seen).toEqual({
    listing: NO_LISTING,
    form: NO_FORM,
    page: EMPTY,
    create: NO_LISTING,
    update: NO_FORM,
  });
}

describe("the scope is the listings with the role owner or writer", () => {
  test("an owner has the listing and its forms in scope", () => expectInScope(asUser(services, ownerId)));

  test("so has a writer", async () => {
    const { id } = await makeUser(services);
    await setRole(services, listing.id, id, "WRITER");
    await expectInScope(asUser(services, id));
    await expectInScope(asKey(services, await makeKey(services, id)));
  });

  test("for a reader, a stranger and a user who does not exist, they are what does not exist", async () => {
    const [reader, stranger] = [await makeUser(services), await makeUser(services)];
    await setRole(services, listing.id, reader.id, "READER");
    for (const userId of [reader.id, stranger.id, randomUUID()]) {
      const caller = asUser(services, userId);
      await expectNothing(caller);
      expect(await caller.forms.list({})).toEqual(EMPTY);
      expect(await caller.listings.list({})).toEqual(EMPTY);
    }
    await expectNothing(asKey(services, await makeKey(services, reader.id)));
  });

  test("a holder of other listings learns no more", async () => {
    const other = await makeUser(services);
    const own = await makeListing(services, other.id);
    const ownForm = await makeForm(services, other.id, own.id);
    const caller = asUser(services, other.id);
    await expectNothing(caller);
    expect((await caller.forms.list({})).items.map(({ id }) => id)).toEqual([ownForm.id]);
    expect((await caller.listings.list({})).items).toEqual([own]);
  });

  test("a malformed id is not found, whatever the rest of the body", async () => {
    const caller = asUser(services, ownerId);
    for (const id of ["", "x", `${form.id} `, `${form.id}0`, form.id.replaceAll("-", ""), `{${form.id}}`]) {
      expect(await catchServiceError(caller.forms.get({ id }))).toEqual(NO_FORM);
      expect(await catchServiceError(caller.listings.get({ id }))).toEqual(NO_LISTING);
      expect(await catchServiceError(caller.forms.update({ id, ...fixedStay(listing.id) }))).toEqual(NO_FORM);
    }
  });

  test("an id in upper case is the same id, answered in lower case", async () => {
    const caller = asUser(services, ownerId);
    expect((await caller.forms.get({ id: form.id.toUpperCase() })).id).toBe(form.id);
    expect(await caller.listings.get({ id: listing.id.toUpperCase() })).toEqual(listing);
    const updated = await caller.forms.update({
      id: form.id.toUpperCase(),
      ...fixedStay(listing.id.toUpperCase()),
    });
    expect(updated).toMatchObject({ id: form.id, listingId: listing.id });
    const page = await caller.forms.list({ listingId: listing.id.toUpperCase() });
    expect(page.items.map(({ id }) => id)).toContain(form.id);
  });
});

describe("an update needs the form and the target in scope", () => {
  test("an out-of-scope form is not found before the listing is looked at, an out-of-scope listing is named, and nothing changes", async () => {
    const me = await makeUser(services);
    const [mine, second, foreign] = [
      await makeListing(services, me.id),
      await makeListing(services, me.id),
      await makeListing(services, ownerId),
    ];
    const readable = await makeListing(services, ownerId);
    await setRole(services, readable.id, me.id, "READER");
    const myForm = await makeForm(services, me.id, mine.id);
    const theirForm = await makeForm(services, ownerId, foreign.id);
    const caller = asUser(services, me.id);
    for (const target of [foreign.id, readable.id, randomUUID()]) {
      expect(await catchServiceError(caller.forms.update({ id: myForm.id, ...fixedStay(target) }))).toEqual(
        NO_LISTING,
      );
    }
    for (const target of [mine.id, foreign.id, randomUUID()]) {
      expect(
        await catchServiceError(caller.forms.update({ id: theirForm.id, ...fixedStay(target) })),
      ).toEqual(NO_FORM);
    }
    expect(await caller.forms.get({ id: myForm.id })).toEqual(myForm);
    expect(await asUser(services, ownerId).forms.get({ id: theirForm.id })).toEqual(theirForm);

    const moved = await caller.forms.update({ id: myForm.id, ...fixedStay(second.id) });
    expect(moved).toMatchObject({ id: myForm.id, listingId: second.id, publicId: myForm.publicId });
    expect((await caller.forms.list({ listingId: mine.id })).items).toEqual([]);
    expect((await caller.forms.list({ listingId: second.id })).items).toEqual([moved]);
  });
});

describe("a membership counts as it stands at the call", () => {
  test("demoted to reader, removed, made writer again: each holds at once, for a key too", async () => {
    const member = await makeUser(services);
    const key = await makeKey(services, member.id);
    const callers = [asUser(services, member.id), asKey(services, key)];
    for (const role of ["WRITER", "READER", "OWNER", "NONE", "WRITER"] as const) {
      await setRole(services, listing.id, member.id, role);
      for (const caller of callers) {
        if (role === "WRITER" || role === "OWNER") await expectInScope(caller);
        else await expectNothing(caller);
      }
    }
  });

  test("another member's role does not matter", async () => {
    const member = await makeUser(services);
    await setRole(services, listing.id, member.id, "READER");
    await setRole(services, listing.id, member.id, "NONE");
    await expectInScope(asUser(services, ownerId));
  });
});
