import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { projectStatus } from "../../server/forms/queries.js";
import { asUser, openTestServices } from "../support/factories.js";
import { writeFixtures } from "../support/form-write-guard.js";
import { makeListingOwner } from "../support/listing-owner.js";

// Prepared SQL reads rows without Prisma's client. Both must read the same values.

let services: Services;
let userId: string;
let listingId: string;
let formId: string;

beforeAll(async () => {
  services = await openTestServices();
  const owner = await makeListingOwner(services);
  ({ userId, listingId } = owner);
  formId = (await owner.addForm()).id;
});

// Everything that a text column accepts, so no NUL.
const text = fc
  .array(
    fc.oneof(fc.constantFrom(...'"\\/\b\f\n\r\t\u001f\u007f\u2028é😀{}<'), fc.string({ unit: "binary" })),
  )
  .map((parts) => parts.join("").replaceAll("\0", ""));
const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const instant = fc.date({
  min: new Date(0),
  max: new Date("9999-12-31T23:59:59.999Z"),
  noInvalidDate: true,
});
const orNull = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: null });
const toJson = (row: unknown) => JSON.parse(JSON.stringify(row));

test("a listing is returned as stored without its external id, for all values of its columns", async () => {
  const columns = fc.record({
    ...{ title: text, address: text, city: text, country: text, zipCode: text, timezone: text },
    ...{ district: orNull(text), active: fc.boolean(), allowPets: orNull(fc.boolean()) },
    ...{ maxPeopleInListing: orNull(int32), maxVehicles: orNull(int32), createdAt: instant },
  });
  await fc.assert(
    fc.asyncProperty(columns, async (data) => {
      const row = await services.db.prisma.listing.update({ where: { id: listingId }, data });
      const { externalId: _, ...stored } = toJson(row);
      const caller = asUser(services, userId);
      expect(await caller.listings.get({ id: listingId })).toEqual(stored);
      expect(await caller.listings.list({})).toEqual({ items: [stored], nextCursor: null });
    }),
    { numRuns: 60 },
  );
});

test("a form is returned as stored without its address and fingerprint, for all values of its columns", async () => {
  const columns = fc.record({
    ...{ publicId: text, status: text, checkInDate: orNull(instant), checkOutDate: orNull(instant) },
    ...{ numberOfGuests: orNull(int32), numberOfVehicles: orNull(int32), numberOfPets: orNull(int32) },
    createdAt: instant,
  });
  await fc.assert(
    fc.asyncProperty(columns, async ({ publicId, ...data }) => {
      const { guestEmail, fingerprint, ...row } = await writeFixtures(services.db, (tx) =>
        tx.form.update({ where: { id: formId }, data: { ...data, publicId: publicId + randomUUID() } }),
      );
      const stored = { ...toJson(row), status: projectStatus(row.status) };
      const caller = asUser(services, userId);
      expect(await caller.forms.get({ id: formId })).toEqual(stored);
      expect(await caller.forms.list({ listingId })).toEqual({ items: [stored], nextCursor: null });
    }),
    { numRuns: 60 },
  );
});
