import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import { projectStatus } from "../../server/forms/schema.js";
import { FORM_STATUSES } from "../../server/forms/status.js";
import { openTestCore } from "../support/core.js";
import { asOperator, asUser as asUserOf, catchRejectedFields } from "../support/factories.js";
import { writeFixtures } from "../support/form-write-guard.js";
import { FORM_FIELDS, LISTING_FIELDS, matches } from "../support/public-fields.js";
import { fixedStay, uniqueStay } from "../support/stays.js";

const { services, operator, owner, sql, openProcess, asUser, makeOwner } = await openTestCore();
const { listingId, forms } = owner;

describe("a form", () => {
  test("has exactly the public fields, from every operation", async () => {
    const body = fixedStay(listingId, { guestEmail: "guest@example.com" });
    const created = await forms.create(body);
    const { guestEmail: _, ...stay } = body;
    const { id, publicId, createdAt } = created;
    const unset = { externalId: null, guestUrl: null, numberOfVehicles: null, numberOfPets: null };
    expect(created).toEqual({ ...stay, status: "SENT", ...unset, id, publicId, createdAt, updatedAt: createdAt });
    expect(Object.keys(created)).toEqual(Object.keys(FORM_FIELDS));
    for (const [field, isValid] of Object.entries({ ...FORM_FIELDS, publicId: matches(/^[\w-]{21}$/) })) {
      expect(isValid(created[field as keyof FormV1]), field).toBe(true);
    }
    expect(await forms.get({ id: created.id })).toEqual(created);
    expect((await forms.list({})).items).toEqual([created]);
    expect((await forms.list({ listingId })).items).toEqual([created]);
    expect(await forms.update({ id: created.id, ...body })).toEqual(created);
    expect(await forms.create(body)).toEqual(created);
  });

  test("has the guest's link if FORM_URL_TEMPLATE is set, from every operation", async () => {
    const linked = await openProcess({ FORM_URL_TEMPLATE: "https://a.example/{publicId}?again={publicId}" });
    const [user, staff] = [asUserOf(linked, owner.userId).forms, asOperator(linked).forms];
    const { id: ownId } = await owner.addListing();
    const body = uniqueStay(ownId);
    const created = await user.create(body);
    const { id, publicId } = created;
    expect(created.guestUrl).toBe(`https://a.example/${publicId}?again=${publicId}`);
    expect(Object.keys(created)).toEqual(Object.keys(FORM_FIELDS));
    const { hasGuestEmail: _, ...read } = await staff.getAny({ id });
    const { form } = await staff.getByPublicId({ publicId: publicId ?? "" });
    const [listed, all] = [await user.list({ listingId: ownId }), await staff.listAll({ listingId: ownId })];
    const unchanged = [await user.update({ id, ...body }), await user.setStatus({ id, status: "SENT" })];
    for (const same of [await user.create(body), await user.get({ id }), read, form, ...unchanged])
      expect(same).toEqual(created);
    expect([listed.items, all.items]).toEqual([[created], [{ ...created, emailState: null }]]);
    expect(await forms.get({ id })).toEqual({ ...created, guestUrl: null });
    const { guestUrl } = await user.update({ id, ...body, cancelled: true });
    expect(guestUrl).toBe(created.guestUrl);
  });

  test("has the createdAt of the database, to the millisecond", async () => {
    const before = Date.now();
    const form = await owner.addForm();
    const epoch = "SELECT (extract(epoch FROM created_at) * 1000)::text AS ms FROM forms WHERE id = $1::uuid";
    const [row] = await sql(epoch, form.id);
    expect(Number(row.ms)).toBe(Date.parse(form.createdAt));
    expect(Math.abs(Date.parse(form.createdAt) - before)).toBeLessThan(60_000);
  });
});

describe("the status", () => {
  const CHANGING = FORM_STATUSES.filter((status) => status !== "CANCELLED");
  test.each(CHANGING)("%s is returned as stored, and an update does not change it", async (status) => {
    const { id } = await owner.addForm();
    const set = await operator.forms.setStatus({ id: id.toUpperCase(), status, force: true });
    expect(set.status).toBe(status);
    expect(await forms.get({ id })).toEqual(set);
    expect((await forms.update({ id, ...fixedStay(listingId) })).status).toBe(status);
  });

  test("CANCELLED is returned as stored, and an update is rejected and does not change it", async () => {
    const { id } = await owner.addForm();
    const set = await operator.forms.setStatus({ id: id.toUpperCase(), status: "CANCELLED", force: true });
    expect(set.status).toBe("CANCELLED");
    expect(await catchRejectedFields(forms.update({ id, ...fixedStay(listingId) }))).toEqual(["cancelled"]);
    expect(await forms.get({ id })).toEqual(set);
  });

  test.each(["ARCHIVED", "A", "_", "SENT_TWICE", "X".repeat(32)])(
    "%s, which is not in the public list, is returned as UNKNOWN and stays stored",
    async (status) => {
      const { id } = await owner.addForm();
      const set = await operator.forms.setStatus({ id, status, force: true });
      expect(set.status).toBe("UNKNOWN");
      expect(await forms.get({ id })).toEqual(set);
      expect((await forms.list({ limit: 100 })).items).toContainEqual(set);
      expect((await forms.update({ id, ...fixedStay(listingId) })).status).toBe("UNKNOWN");
      expect(await sql("SELECT status FROM forms WHERE id = $1", id)).toEqual([{ status }]);
    },
  );
});

// Prepared SQL reads rows without Prisma's client. Both must read the same values.
describe("for all values of its columns", async () => {
  const { userId, listingId, addForm } = await makeOwner();
  const { id: formId } = await addForm();
  const { forms, listings } = asUser(userId);

  // Everything that a text column accepts, so no NUL.
  const text = fc
    .array(fc.oneof(fc.constantFrom(...'"\\/\b\f\n\r\t\u001f\u007f\u2028é😀{}<'), fc.string({ unit: "binary" })))
    .map((parts) => parts.join("").replaceAll("\0", ""));
  const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  const instant = fc.date({ min: new Date(0), max: new Date("9999-12-31T23:59:59.999Z"), noInvalidDate: true });
  const orNull = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: null });
  const toJson = (row: unknown) => JSON.parse(JSON.stringify(row));

  test("a listing is returned as stored without its language", async () => {
    const columns = fc.record({
      ...{ title: text, address: text, city: text, country: text, zipCode: text, timezone: text },
      ...{ district: orNull(text), active: fc.boolean(), allowPets: orNull(fc.boolean()) },
      ...{ externalId: orNull(text), language: orNull(text) },
      ...{ maxPeopleInListing: orNull(int32), maxVehicles: orNull(int32), createdAt: instant },
    });
    await fc.assert(
      fc.asyncProperty(columns, async (data) => {
        const row = await services.db.prisma.listing.update({ where: { id: listingId }, data });
        const { language: _language, ...stored } = toJson(row);
        const read = await listings.get({ id: listingId });
        expect(read).toEqual(stored);
        expect(Object.keys(read)).toEqual(Object.keys(LISTING_FIELDS));
        expect(await listings.list({})).toEqual({ items: [stored], nextCursor: null });
      }),
      { numRuns: 60 },
    );
  });

  test("a form is returned as stored without its address, its fingerprint and the number of its later invitations", async () => {
    const columns = fc.record({
      ...{ publicId: text, status: text, checkInDate: orNull(instant), checkOutDate: orNull(instant) },
      ...{ numberOfGuests: orNull(int32), numberOfVehicles: orNull(int32), numberOfPets: orNull(int32) },
      ...{ externalId: orNull(text), createdAt: instant, updatedAt: orNull(instant) },
    });
    await fc.assert(
      fc.asyncProperty(columns, async ({ publicId, ...data }) => {
        const { guestEmail, fingerprint, laterInvitations, ...row } = await writeFixtures(services.db, (tx) =>
          tx.form.update({ where: { id: formId }, data: { ...data, publicId: publicId + randomUUID() } }),
        );
        const updatedAt = row.updatedAt ?? row.createdAt;
        const stored = { ...toJson({ ...row, updatedAt }), guestUrl: null, status: projectStatus(row.status) };
        expect(await forms.get({ id: formId })).toEqual(stored);
        expect(await forms.list({ listingId })).toEqual({ items: [stored], nextCursor: null });
      }),
      { numRuns: 60 },
    );
  });
});
