import { randomUUID } from "node:crypto";
import { inspect } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import type { Caller } from "../../server/caller.js";
import type { Services } from "../../server/context.js";
import type { FormBody } from "../../server/forms/schema.js";
import { asUser, catchErrorCode, catchRejectedFields, openTestServices } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { fixedStay } from "../support/stays.js";

let services: Services;
let forms: Caller["forms"];
let listingId: string;
let formId: string;

beforeAll(async () => {
  services = await openTestServices();
  const owner = await makeListingOwner(services);
  ({ forms, listingId } = owner);
  formId = (await owner.addForm()).id;
});

/** Returns a body with values that the types do not allow. */
const untypedBody = (overrides: Record<string, unknown>) =>
  ({ ...fixedStay(listingId), ...overrides }) as unknown as FormBody;

/** Returns the fields that create and update reject. Fails if they differ. */
async function catchRejectedByBoth(overrides: Record<string, unknown>): Promise<string[]> {
  const onCreate = await catchRejectedFields(forms.create(untypedBody(overrides)));
  expect(await catchRejectedFields(forms.update({ id: formId, ...untypedBody(overrides) }))).toEqual(
    onCreate,
  );
  return onCreate;
}

const update = (overrides: Record<string, unknown>) =>
  forms.update({ id: formId, ...untypedBody(overrides) });

describe("instants", () => {
  test.each([
    ["Z", "2027-07-01T15:00:00Z", "2027-07-01T15:00:00.000Z"],
    ["a positive offset", "2027-07-01T15:00:00+02:00", "2027-07-01T13:00:00.000Z"],
    ["a negative offset across midnight", "2027-07-01T23:30:00-03:30", "2027-07-02T03:00:00.000Z"],
    ["+00:00", "2027-07-01T15:00:00+00:00", "2027-07-01T15:00:00.000Z"],
    ["-00:00", "2027-07-01T15:00:00-00:00", "2027-07-01T15:00:00.000Z"],
    ["the largest offset in use", "2027-07-01T15:00:00+14:00", "2027-07-01T01:00:00.000Z"],
    ["one fractional digit", "2027-07-01T15:00:00.1Z", "2027-07-01T15:00:00.100Z"],
    ["two fractional digits", "2027-07-01T15:00:00.12Z", "2027-07-01T15:00:00.120Z"],
    ["three fractional digits", "2027-07-01T15:00:00.123Z", "2027-07-01T15:00:00.123Z"],
    ["four fractional digits, cut", "2027-07-01T15:00:00.1239Z", "2027-07-01T15:00:00.123Z"],
    ["five fractional digits, cut", "2027-07-01T15:00:00.00099Z", "2027-07-01T15:00:00.000Z"],
    ["six fractional digits, cut", "2027-07-01T15:00:00.123999Z", "2027-07-01T15:00:00.123Z"],
    ["seven fractional digits, cut", "2027-07-01T15:00:00.1239999Z", "2027-07-01T15:00:00.123Z"],
    ["eight fractional digits, cut", "2027-07-01T15:00:00.12399999+02:00", "2027-07-01T13:00:00.123Z"],
    [
      "nine fractional digits, cut and not rounded",
      "2027-07-01T23:59:59.999999999Z",
      "2027-07-01T23:59:59.999Z",
    ],
    ["29 February of a leap year", "2028-02-29T12:00:00Z", "2028-02-29T12:00:00.000Z"],
    ["29 February of 2000", "2000-02-29T12:00:00Z", "2000-02-29T12:00:00.000Z"],
    ["the first instant", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"],
    ["1969 that is 1970 in UTC", "1969-12-31T23:59:00-00:01", "1970-01-01T00:00:00.000Z"],
  ])("checkInDate accepts %s", async (_, given, stored) => {
    const form = await update({ checkInDate: given, checkOutDate: "9999-01-01T00:00:00Z" });
    expect(form.checkInDate).toBe(stored);
    expect((await forms.get({ id: formId })).checkInDate).toBe(stored);
  });

  test.each([
    ["the last instant", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"],
    ["the last instant with nanoseconds", "9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999Z"],
    ["the last instant with an offset", "9999-12-31T00:59:59.999-23:00", "9999-12-31T23:59:59.999Z"],
  ])("checkOutDate accepts %s", async (_, given, stored) => {
    expect((await update({ checkOutDate: given })).checkOutDate).toBe(stored);
    expect((await forms.get({ id: formId })).checkOutDate).toBe(stored);
  });

  test.each<[string, unknown]>([
    ["no offset", "2027-07-01T15:00:00"],
    ["no seconds", "2027-07-01T15:00Z"],
    ["only a date", "2027-07-01"],
    ["lower-case t", "2027-07-01t15:00:00Z"],
    ["lower-case z", "2027-07-01T15:00:00z"],
    ["a space instead of T", "2027-07-01 15:00:00Z"],
    ["an HTTP date", "Thu, 01 Jul 2027 15:00:00 GMT"],
    ["the basic format", "20270701T150000Z"],
    ["a week date", "2027-W26-4T15:00:00Z"],
    ["an ordinal date", "2027-182T15:00:00Z"],
    ["a point without digits", "2027-07-01T15:00:00.Z"],
    ["a decimal comma", "2027-07-01T15:00:00,5Z"],
    ["ten fractional digits", "2027-07-01T15:00:00.1234567890Z"],
    ["an offset without a colon", "2027-07-01T15:00:00+0200"],
    ["an offset with only hours", "2027-07-01T15:00:00+02"],
    ["an offset with one digit", "2027-07-01T15:00:00+2:00"],
    ["an offset of 24 hours", "2027-07-01T15:00:00+24:00"],
    ["an offset of 60 minutes", "2027-07-01T15:00:00+01:60"],
    ["the millisecond after the last instant", "9999-12-31T23:00:00-01:00"],
    ["a typographic minus", "2027-07-01T15:00:00\u221202:00"],
    ["Z and an offset", "2027-07-01T15:00:00Z+02:00"],
    ["a named zone", "2027-07-01T15:00:00[Europe/Berlin]"],
    ["31 February", "2027-02-31T15:00:00Z"],
    ["29 February of a common year", "2027-02-29T15:00:00Z"],
    ["29 February of 2100", "2100-02-29T15:00:00Z"],
    ["31 April", "2027-04-31T15:00:00Z"],
    ["month 13", "2027-13-01T15:00:00Z"],
    ["month 0", "2027-00-01T15:00:00Z"],
    ["day 0", "2027-07-00T15:00:00Z"],
    ["24:00", "2027-07-01T24:00:00Z"],
    ["minute 60", "2027-07-01T15:60:00Z"],
    ["second 60", "2027-06-30T23:59:60Z"],
    ["before 1970", "1969-12-31T23:59:59.999Z"],
    ["1970 that is 1969 in UTC", "1970-01-01T00:00:00+00:01"],
    ["year 0", "0000-01-01T00:00:00Z"],
    ["year 50", "0050-01-01T00:00:00Z"],
    ["9999 that is 10000 in UTC", "9999-12-31T23:59:59.999-00:01"],
    ["a year with five digits", "10000-01-01T00:00:00Z"],
    ["a signed year", "+002027-07-01T15:00:00Z"],
    ["a space before", " 2027-07-01T15:00:00Z"],
    ["a line feed after", "2027-07-01T15:00:00Z\n"],
    ["full-width digits", "２０２７-07-01T15:00:00Z"],
    ["empty text", ""],
    ["seconds since 1970", 1_814_367_600],
    ["milliseconds as text", "1814367600000"],
    ["zero", 0],
    ["null", null],
    ["absent", undefined],
    ["true", true],
    ["a list", ["2027-07-01T15:00:00Z"]],
    ["a Date", new Date()],
  ])("rejected: %s", async (_, given) => {
    expect(await catchRejectedByBoth({ checkInDate: given })).toEqual(["checkInDate"]);
    expect(await catchRejectedByBoth({ checkOutDate: given })).toEqual(["checkOutDate"]);
  });
});

describe("checkOutDate must be after checkInDate", () => {
  const checkInDate = "2027-07-01T15:00:00.000Z";
  test.each([
    ["the same instant", checkInDate],
    ["the same instant at another offset", "2027-07-01T17:00:00+02:00"],
    ["the same millisecond", "2027-07-01T15:00:00.000999Z"],
    ["a millisecond before", "2027-07-01T14:59:59.999Z"],
    ["a later local time, but an earlier instant", "2027-07-01T16:00:00+02:00"],
  ])("rejected: %s", async (_, checkOutDate) => {
    expect(await catchRejectedByBoth({ checkInDate, checkOutDate })).toEqual(["checkOutDate"]);
  });

  test("accepted: a millisecond after", async () => {
    const form = await update({ checkInDate, checkOutDate: "2027-07-01T15:00:00.001Z" });
    expect(form.checkOutDate).toBe("2027-07-01T15:00:00.001Z");
  });
});

describe("numberOfGuests", () => {
  test.each([[1], [2.0], [1e1], [2_147_483_647]])("accepted: %d", async (numberOfGuests) => {
    expect((await update({ numberOfGuests })).numberOfGuests).toBe(numberOfGuests);
  });

  const NUMBERS = [0, -1, -0, 2.5, 2_147_483_648, 1e300, Number.NaN, Number.POSITIVE_INFINITY];
  const OTHER_TYPES = ["3", "", true, false, null, undefined, [3], {}, 3n, new Date(3)];
  test.for<unknown>([...NUMBERS, ...OTHER_TYPES])("rejected: %o", async (numberOfGuests) => {
    expect(await catchRejectedByBoth({ numberOfGuests })).toEqual(["numberOfGuests"]);
  });
});

describe("guestEmail", () => {
  const long = `${"a".repeat(64)}@${"b".repeat(63)}.${"c".repeat(63)}.${"d".repeat(57)}.com`;
  test.each<[string, unknown]>([
    ["absent", undefined],
    ["null", null],
    ["plain", "guest@example.com"],
    ["with a tag and a subdomain", "o'neil.guest+tag@mail.example.co.uk"],
    ["with spaces around", "  guest@example.com "],
    ["254 characters", long],
  ])("accepted: %s", async (_, guestEmail) => {
    expect(long).toHaveLength(254);
    expect((await update({ guestEmail })).id).toBe(formId);
  });

  test.each<[string, unknown]>([
    ["empty", ""],
    ["spaces", "   "],
    ["no @", "guest"],
    ["no domain", "guest@"],
    ["no local part", "@example.com"],
    ["a domain of one label", "guest@example"],
    ["two @", "guest@@example.com"],
    ["a space inside", "gu est@example.com"],
    ["two consecutive dots", "gu..est@example.com"],
    ["a leading dot", ".guest@example.com"],
    ["a leading hyphen in the domain", "guest@-example.com"],
    ["a second recipient", "guest@example.com,other@example.com"],
    ["an injected header", "guest@example.com\r\nBcc: other@example.com"],
    ["a display name", "Guest <guest@example.com>"],
    ["NUL", "gu\u0000est@example.com"],
    ["a letter outside ASCII", "gäst@example.com"],
    ["a domain outside ASCII", "guest@bücher.example"],
    ["a quoted local part", '"guest"@example.com'],
    ["a local part of 65 characters", `${"a".repeat(65)}@example.com`],
    ["255 characters", `a${long.replace(/^a/, "").replace("@", "@e")}`],
    ["a number", 5],
    ["true", true],
    ["a list", ["guest@example.com"]],
  ])("rejected: %s", async (_, guestEmail) => {
    expect(await catchRejectedByBoth({ guestEmail })).toEqual(["guestEmail"]);
  });
});

describe("listingId", () => {
  test.each([
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "12345678-1234-9234-1234-123456789abc",
    randomUUID().toUpperCase(),
  ])("may be a UUID of any version: %s", async (id) => {
    expect(await catchErrorCode(forms.create(untypedBody({ listingId: id })))).toBe("RESOURCE_NOT_FOUND");
  });

  test.each([
    ...["", "x", null, undefined, 7],
    "123456781234123412341234567890ab",
    "{12345678-1234-1234-1234-1234567890ab}",
    "urn:uuid:12345678-1234-1234-1234-1234567890ab",
    "12345678-1234-1234-1234-1234567890ag",
    "12345678-1234-1234-1234-1234567890ab\n",
    " 12345678-1234-1234-1234-1234567890ab",
  ])("rejected: %o", async (id) => {
    expect(await catchRejectedByBoth({ listingId: id })).toEqual(["listingId"]);
  });
});

describe("the whole body", () => {
  test("an unknown property is rejected by name, whatever its value", async () => {
    expect(await catchRejectedByBoth({ guestemail: "guest@example.com" })).toEqual(["guestemail"]);
    expect(await catchRejectedByBoth({ status: undefined, numberOfPets: null })).toEqual([
      "status",
      "numberOfPets",
    ]);
    expect(await catchRejectedFields(forms.create(untypedBody({ id: formId })))).toEqual(["id"]);
  });

  test("all faults are reported together, one per field, in the order of the fields, unknown properties last", async () => {
    const everything = {
      zebra: 1,
      numberOfGuests: "3",
      guestEmail: `${"x".repeat(300)}`,
      apple: 2,
      checkOutDate: "2027-06-30T00:00:00Z",
      listingId: "x",
    };
    const after = ["numberOfGuests", "guestEmail", "zebra", "apple"];
    expect(await catchRejectedByBoth(everything)).toEqual(["listingId", "checkOutDate", ...after]);
    expect(await catchRejectedByBoth({ ...everything, checkInDate: "today" })).toEqual([
      "listingId",
      "checkInDate",
      ...after,
    ]);
    expect(await catchRejectedByBoth({ ...everything, checkInDate: "today", checkOutDate: "later" })).toEqual(
      ["listingId", "checkInDate", "checkOutDate", ...after],
    );
    expect(await catchRejectedByBoth({ checkOutDate: "2027-06-30T00:00:00Z", guestEmail: "x" })).toEqual([
      "checkOutDate",
      "guestEmail",
    ]);
  });

  test("an empty body is rejected with every required field", async () => {
    const fields = ["listingId", "checkInDate", "checkOutDate", "numberOfGuests"];
    expect(await catchRejectedFields(forms.create({} as FormBody))).toEqual(fields);
  });

  test.each([[undefined], [null], ["x"], [7], [[]]])(
    "a body that is not an object is rejected: %o",
    async (body) => {
      expect(await catchRejectedFields(forms.create(body as unknown as FormBody))).toEqual(["body"]);
    },
  );

  test("the body is validated before the scope is checked", async () => {
    expect(await catchRejectedByBoth({ listingId: randomUUID(), numberOfGuests: 0 })).toEqual([
      "numberOfGuests",
    ]);
  });

  test.each(["listingId", "checkInDate", "checkOutDate", "numberOfGuests", "guestEmail"])(
    "an error about %s does not contain the rejected value, nor does its cause",
    async (field) => {
      const error = await forms
        .create(untypedBody({ [field]: "secret-value@@example" }))
        .catch((failure: unknown) => failure);
      expect(error).toMatchObject({ serviceCode: "VALIDATION_ERROR", errors: [{ field }] });
      expect(inspect(error, { depth: null, showHidden: true })).not.toContain("secret-value");
    },
  );
});

describe("Idempotency-Key", () => {
  test.each([["x"], [" "], ["~ !"], ["k".repeat(255)]])("accepted: %o", async (key) => {
    const owner = await makeListingOwner(services);
    expect((await owner.create(owner.body, key)).form.listingId).toBe(owner.listingId);
  });

  test.each([[""], ["k".repeat(256)], ["schlüssel"], ["a\tb"], ["a\u007f"], ["a\n"]])(
    "rejected on create and ignored on update: %o",
    async (key) => {
      const owner = await makeListingOwner(services);
      expect(await catchRejectedFields(owner.create(owner.body, key))).toEqual(["Idempotency-Key"]);
      const { id } = await owner.addForm();
      const keyed = asUser(services, owner.userId, { idempotencyKey: key });
      expect((await keyed.forms.update({ id, ...fixedStay(owner.listingId) })).id).toBe(id);
    },
  );
});
