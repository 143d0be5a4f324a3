import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { createContext, type Services } from "../../server/context.js";
import { FORM_SELECT, projectForm } from "../../server/forms/projection.js";
import { LISTING_SELECT, projectListing } from "../../server/listings/projection.js";
import { appRouter } from "../../server/router.js";
import { createCallerFactory } from "../../server/trpc.js";
import { asUser, makeListing, makeUser, openTestServices, stay } from "../factories.js";

// What Postgres writes as JSON must be, byte for byte, what JSON.stringify makes of the same row.

let services: Services;
let userId: string;
let listingId: string;
let formId: string;

beforeAll(async () => {
  services = await openTestServices();
  userId = (await makeUser(services)).id;
  listingId = (await makeListing(services, userId)).id;
  formId = (await asUser(services, userId).forms.create(stay(listingId))).id;
});

/** As a caller that passes the text on gets it. */
const text = (answer: unknown) => {
  expect(answer).toBeTypeOf("string");
  return answer as string;
};
const taking = () =>
  createCallerFactory(appRouter)(createContext(services, { kind: "user", userId }, { takesJson: true }));

// All that a text column takes: not NUL.
const line = fc
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

test("a listing, whatever its columns hold", async () => {
  const columns = fc.record({
    ...{ title: line, address: line, city: line, country: line, zipCode: line, timezone: line },
    ...{ district: orNull(line), active: fc.boolean(), allowPets: orNull(fc.boolean()) },
    ...{ maxPeopleInListing: orNull(int32), maxVehicles: orNull(int32), createdAt: instant },
  });
  await fc.assert(
    fc.asyncProperty(columns, async (data) => {
      const row = await services.db.prisma.listing.update({
        where: { id: listingId },
        data,
        select: LISTING_SELECT,
      });
      const expected = JSON.stringify(projectListing(row));
      expect(text(await taking().listings.get({ id: listingId }))).toBe(expected);
      expect(text(await taking().listings.list({}))).toBe(`{"items":[${expected}],"nextCursor":null}`);
      expect(await asUser(services, userId).listings.get({ id: listingId })).toEqual(projectListing(row));
    }),
    { numRuns: 60 },
  );
});

test("a form, whatever its columns hold", async () => {
  const columns = fc.record({
    ...{ publicId: line, status: line, checkInDate: orNull(instant), checkOutDate: orNull(instant) },
    ...{ numberOfGuests: orNull(int32), numberOfVehicles: orNull(int32), numberOfPets: orNull(int32) },
    createdAt: instant,
  });
  await fc.assert(
    fc.asyncProperty(columns, async ({ publicId, ...data }) => {
      const row = await services.db.prisma.form.update({
        where: { id: formId },
        data: { ...data, publicId: publicId + randomUUID() },
        select: FORM_SELECT,
      });
      const expected = JSON.stringify(projectForm(row));
      expect(text(await taking().forms.get({ id: formId }))).toBe(expected);
      expect(text(await taking().forms.list({ listingId }))).toBe(
        `{"items":[${expected}],"nextCursor":null}`,
      );
      expect(await asUser(services, userId).forms.get({ id: formId })).toEqual(projectForm(row));
    }),
    { numRuns: 60 },
  );
});

test("a page ends between two items, even where a string looks like that place", async () => {
  const owner = await makeUser(services);
  const titles = [',{"id":"', '"},{"id":', '\\",{"id":"x"}', "Alfama"];
  for (const title of titles) await makeListing(services, owner.id, { title });
  const caller = asUser(services, owner.id);
  for (const limit of [1, 2, 3, 4]) {
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await caller.listings.list({ limit, cursor });
      expect(page.items).toHaveLength(Math.min(limit, titles.length - seen.length));
      seen.push(...page.items.map(({ title }) => title));
      cursor = page.nextCursor ?? undefined;
    } while (cursor);
    expect(seen).toEqual(titles);
  }
});
