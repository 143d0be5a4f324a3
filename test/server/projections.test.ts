import { beforeAll, describe, expect, test } from "vitest";
import type { Caller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";
import { FORM_STATUSES } from "../../server/forms/status.js";
import { asOperator, asUser, makeForm, makeListing, openTestServices } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { findSecrets, readAllRows } from "../support/personal-data.js";
import { FORM_FIELDS, LISTING_FIELDS } from "../support/public-fields.js";
import { fixedStay } from "../support/stays.js";

let services: Services;
let ownerId: string;
let listingId: string;
let forms: Caller["forms"];

beforeAll(async () => {
  services = await openTestServices();
  ({ userId: ownerId, listingId, forms } = await makeListingOwner(services));
});

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const FORM_KEYS = Object.keys(FORM_FIELDS);
const LISTING_KEYS = Object.keys(LISTING_FIELDS);
const SLUG = /^[\w-]{21}$/;

describe("a form", () => {
  test("has exactly the public fields, from every operation", async () => {
    const body = fixedStay(listingId, { guestEmail: "guest@example.com" });
    const created = await forms.create(body);
    expect(Object.keys(created)).toEqual(FORM_KEYS);
    expect(created).toMatchObject({
      id: expect.stringMatching(/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/),
      publicId: expect.stringMatching(SLUG),
      createdAt: expect.stringMatching(INSTANT),
      listingId,
      status: "SENT",
      checkInDate: "2055-07-01T13:00:00.000Z",
      checkOutDate: "2055-07-08T09:00:00.000Z",
      numberOfGuests: 2,
      numberOfVehicles: null,
      numberOfPets: null,
    });
    expect(await forms.get({ id: created.id })).toEqual(created);
    expect((await forms.list({})).items).toEqual([created]);
    expect((await forms.list({ listingId })).items).toEqual([created]);
    expect(await forms.update({ id: created.id, ...body })).toEqual(created);
    const replayed = await forms.create(body);
    expect(replayed).toEqual(created);
  });

  test("has the createdAt of the database, to the millisecond", async () => {
    const before = Date.now();
    const form = await makeForm(services, ownerId, listingId);
    const rows = await services.db.query<{ ms: string }>(
      "created-ms",
      "SELECT (extract(epoch FROM created_at) * 1000)::text AS ms FROM forms WHERE id = $1::uuid",
      [form.id],
    );
    expect(Number(rows[0]?.ms)).toBe(Date.parse(form.createdAt));
    expect(Math.abs(Date.parse(form.createdAt) - before)).toBeLessThan(60_000);
  });

  test("has its nullable fields as null if they are not set", async () => {
    const { id } = await makeForm(services, ownerId, listingId);
    await services.db.pool.query(
      "UPDATE forms SET check_in_date = NULL, check_out_date = NULL, number_of_guests = NULL WHERE id = $1",
      [id],
    );
    const form = await forms.get({ id });
    expect(Object.keys(form)).toEqual(FORM_KEYS);
    expect(form).toMatchObject({ checkInDate: null, checkOutDate: null, numberOfGuests: null });
    expect((await forms.list({})).items).toContainEqual(form);
  });
});

describe("the status", () => {
  test.each([...FORM_STATUSES])(
    "%s is returned as stored, and an update does not change it",
    async (status) => {
      const { id } = await makeForm(services, ownerId, listingId);
      const set = await asOperator(services).forms.setStatus({ id: id.toUpperCase(), status, force: true });
      expect(set.status).toBe(status);
      expect(await forms.get({ id })).toEqual(set);
      expect((await forms.update({ id, ...fixedStay(listingId) })).status).toBe(status);
    },
  );

  test.each(["ARCHIVED", "A", "_", "SENT_TWICE", "X".repeat(32)])(
    "%s, which is not in the public list, is returned as UNKNOWN and stays stored",
    async (status) => {
      const { id } = await makeForm(services, ownerId, listingId);
      const set = await asOperator(services).forms.setStatus({ id, status, force: true });
      expect(set.status).toBe("UNKNOWN");
      expect(await forms.get({ id })).toEqual(set);
      expect((await forms.list({ limit: 100 })).items).toContainEqual(set);
      expect((await forms.update({ id, ...fixedStay(listingId) })).status).toBe("UNKNOWN");
      const { rows } = await services.db.pool.query("SELECT status FROM forms WHERE id = $1", [id]);
      expect(rows).toEqual([{ status }]);
    },
  );
});

describe("a listing", () => {
  test("has exactly the public fields", async () => {
    const full = {
      title: "Loft",
      address: "Kanalweg 7",
      city: "Berlin",
      country: "Germany",
      zipCode: "10997",
      district: "Kreuzberg",
      timezone: "Europe/Berlin",
      active: false,
      maxPeopleInListing: 4,
      maxVehicles: 0,
      allowPets: false,
    };
    const created = await makeListing(services, ownerId, full);
    expect(Object.keys(created)).toEqual(LISTING_KEYS);
    expect(created).toMatchObject(full);
    expect(created.publicId).toMatch(SLUG);
    expect(created.createdAt).toMatch(INSTANT);
    const caller = asUser(services, ownerId);
    expect(await caller.listings.get({ id: created.id })).toEqual(created);
    const listed = (await caller.listings.list({})).items.find(({ id }) => id === created.id);
    expect(listed).toEqual(created);
    expect(Object.keys(listed ?? {})).toEqual(LISTING_KEYS);
  });

  test("has its nullable fields as null if they are not set", async () => {
    const created = await makeListing(services, ownerId);
    const nulls = { district: null, maxPeopleInListing: null, maxVehicles: null, allowPets: null };
    expect(created).toMatchObject(nulls);
    expect(await asUser(services, ownerId).listings.get({ id: created.id })).toEqual(created);
  });
});

describe("the guest's address", () => {
  test("is in no response, and in no table in plain text or hex", async () => {
    const guestEmail = "Unmistakable.Guest@mail.example.com";
    const changedEmail = "somebody.else@mail.example.com";
    const body = fixedStay(listingId, { guestEmail, numberOfGuests: 77 });
    const created = await forms.create(body);
    const { id } = created;
    const responses = [
      created,
      await forms.create(body),
      await forms.get({ id }),
      await forms.list({}),
      await forms.update({ id, ...fixedStay(listingId, { guestEmail: changedEmail }) }),
      await asOperator(services).forms.setStatus({ id, status: "ACCEPTED" }),
      await asOperator(services).notifications.list(),
    ];
    expect(JSON.stringify(responses)).not.toMatch(/mail\.example/i);
    const tables = await readAllRows(services.db.url);
    expect([...tables.keys()]).toEqual(expect.arrayContaining(["forms", "creations", "notifications"]));
    const addresses = Object.fromEntries(
      ["Unmistakable.Guest", "somebody.else", "mail.example"].map((part) => [part, part]),
    );
    for (const [table, rows] of tables) expect([table, findSecrets(rows, addresses)]).toEqual([table, []]);
  });
});
