import { randomUUID } from "node:crypto";
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import type { FormBody } from "../../server/forms/schema.js";
import { openTestCore } from "../support/core.js";
import { asUser, catchErrorCode, catchRejectedFields, catchServiceError } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import { fixedStay } from "../support/stays.js";

const { services, owner, makeKey, asKey } = await openTestCore();
const { forms, listingId } = owner;
const { id: formId } = await owner.addForm();

/** Returns a body with values that the types do not allow. */
const untypedBody = (overrides: Record<string, unknown>) =>
  ({ ...fixedStay(listingId), ...overrides }) as unknown as FormBody;

const update = (overrides: Record<string, unknown>) => forms.update({ id: formId, ...untypedBody(overrides) });

/** Returns the fields that create and update reject. Fails if they differ. */
async function catchRejectedByBoth(overrides: Record<string, unknown>): Promise<string[]> {
  const onCreate = await catchRejectedFields(forms.create(untypedBody(overrides)));
  expect(await catchRejectedFields(update(overrides))).toEqual(onCreate);
  return onCreate;
}

/** Expects that create and update reject each of these values of a field, and nothing else. */
async function expectRejected(field: string, values: unknown[]): Promise<void> {
  for (const value of values) expect([value, await catchRejectedByBoth({ [field]: value })]).toEqual([value, [field]]);
}

describe("instants", () => {
  test.each([
    ["Z", "2027-07-01T15:00:00Z", "2027-07-01T15:00:00.000Z"],
    ["a negative offset across midnight", "2027-07-01T23:30:00-03:30", "2027-07-02T03:00:00.000Z"],
    ["-00:00", "2027-07-01T15:00:00-00:00", "2027-07-01T15:00:00.000Z"],
    ["the largest offset in use", "2027-07-01T15:00:00+14:00", "2027-07-01T01:00:00.000Z"],
    ["one fractional digit", "2027-07-01T15:00:00.1Z", "2027-07-01T15:00:00.100Z"],
    ["eight fractional digits, cut", "2027-07-01T15:00:00.12399999+02:00", "2027-07-01T13:00:00.123Z"],
    ["nine fractional digits, cut and not rounded", "2027-07-01T23:59:59.999999999Z", "2027-07-01T23:59:59.999Z"],
    ["no seconds", "2027-07-01T15:00Z", "2027-07-01T15:00:00.000Z"],
    ["no seconds, with an offset", "2027-07-01T15:00+02:00", "2027-07-01T13:00:00.000Z"],
    ["29 February of 2000", "2000-02-29T12:00:00Z", "2000-02-29T12:00:00.000Z"],
    ["the first instant", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"],
    ["1969 that is 1970 in UTC", "1969-12-31T23:59:00-00:01", "1970-01-01T00:00:00.000Z"],
  ])("checkInDate accepts %s", async (_, given, stored) => {
    const form = await update({ checkInDate: given, checkOutDate: "9999-12-31T00:59:59.999999999-23:00" });
    const checkOutDate = "9999-12-31T23:59:59.999Z";
    expect(form).toMatchObject({ checkInDate: stored, checkOutDate });
    expect(await forms.get({ id: formId })).toMatchObject({ checkInDate: stored, checkOutDate });
  });

  const NOT_TEXT = [1_814_367_600, null, undefined, true, ["2027-07-01T15:00:00Z"], new Date()];
  test.each<[string, unknown[]]>([
    ["without a time or an offset", ["2027-07-01", "2027-07-01T15:00", "2027-07-01T15:00:00", "2027-07-01Z"]],
    ["without minutes", ["2027-07-01T15Z", "2027-07-01T15+02:00"]],
    ["a fraction without seconds", ["15:00.5Z", "15:00.5+02:00", "15.5Z"].map((s) => `2027-07-01T${s}`)],
    ["another separator", ["2027-07-01t15:00:00Z", "2027-07-01T15:00:00z", "2027-07-01 15:00:00Z"]],
    ["another format", ["Thu, 01 Jul 2027 15:00:00 GMT", "20270701T150000Z", "2027-W26-4T15:00:00Z", ""]],
    [
      "a fraction without digits, with a comma, or of ten",
      ["00.Z", "00,5Z", "00.1234567890Z"].map((s) => `2027-07-01T15:00:${s}`),
    ],
    ["a short offset", ["2027-07-01T15:00:00+0200", "2027-07-01T15:00:00+02", "2027-07-01T15:00:00+2:00"]],
    ["an offset of 24 hours or 60 minutes", ["2027-07-01T15:00:00+24:00", "2027-07-01T15:00:00+01:60"]],
    ["Z and an offset, or a named zone", ["2027-07-01T15:00:00Z+02:00", "2027-07-01T15:00:00[Europe/Berlin]"]],
    ["other digits or signs", ["2027-07-01T15:00:00\u221202:00", "２０２７-07-01T15:00:00Z"]],
    [
      "a day that does not exist",
      ["02-31", "04-31", "02-29", "00-01", "13-01", "07-00"].map((d) => `2027-${d}T15:00:00Z`),
    ],
    ["29 February of 2100", ["2100-02-29T15:00:00Z"]],
    [
      "24:00, or second or minute 60",
      ["07-01T24:00:00Z", "06-30T23:59:60Z", "07-01T15:60:00Z", "07-01T24:00Z", "07-01T15:60Z"].map((s) => `2027-${s}`),
    ],
    ["before 1970 in UTC", ["1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00+00:01", "0050-01-01T00:00:00Z"]],
    ["the millisecond after the last instant", ["9999-12-31T23:00:00-01:00", "9999-12-31T23:59:59.999-00:01"]],
    ["a year of five digits or with a sign", ["10000-01-01T00:00:00Z", "+002027-07-01T15:00:00Z"]],
    ["a space before, or a line feed after", [" 2027-07-01T15:00:00Z", "2027-07-01T15:00:00Z\n"]],
    ["no text", NOT_TEXT],
  ])("rejected: %s", async (_, values) => {
    for (const field of ["checkInDate", "checkOutDate"]) await expectRejected(field, values);
  });

  test.each([
    [
      "the offset needs a colon, such as +02:00",
      ["15:00:00+0200", "15:00:00-02", "15:00+0200", "15:00-02", "15:00:00.5+02"],
    ],
    [
      "must be an ISO 8601 instant with an offset, such as 2026-07-01T15:00:00Z",
      ["15:00:00", "15:00", "15:00:00+2:00", "15:00:00+02:0", "15:00:00+020", "15:00:00+24:00", "15:00.5Z"],
    ],
  ])("rejected with the message: %s", async (issue, times) => {
    for (const time of times) {
      const dates = { checkInDate: `2027-07-01T${time}` };
      for (const call of [forms.create(untypedBody(dates)), update(dates)]) {
        const { errors } = await catchServiceError(call);
        expect([time, errors]).toEqual([time, [{ field: "checkInDate", issue }]]);
      }
    }
  });

  test("checkOutDate must be after checkInDate, by at least a millisecond", async () => {
    const checkInDate = "2027-07-01T15:00:00.000Z";
    const checkOutDate = "2027-07-01T15:00:00.001Z";
    for (const early of [
      ...[checkInDate, "2027-07-01T17:00:00+02:00", "2027-07-01T15:00:00.000999Z", "2027-07-01T14:59:59.999Z"],
      // A later local time, but an earlier instant.
      "2027-07-01T16:00:00+02:00",
    ]) {
      expect(await catchRejectedByBoth({ checkInDate, checkOutDate: early })).toEqual(["checkOutDate"]);
    }
    expect((await update({ checkInDate, checkOutDate })).checkOutDate).toBe(checkOutDate);
  });
});

describe("numberOfGuests", () => {
  test.each([[1], [2.0], [1e1], [2_147_483_647]])("accepted: %d", async (numberOfGuests) => {
    expect((await update({ numberOfGuests })).numberOfGuests).toBe(numberOfGuests);
  });

  const NUMBERS = [0, -1, -0, 2.5, 2_147_483_648, 1e300, Number.NaN, Number.POSITIVE_INFINITY];
  test.for<unknown>([...NUMBERS, "3", "", true, null, undefined, [3], {}, 3n, new Date(3)])("rejected: %o", (value) =>
    expectRejected("numberOfGuests", [value]),
  );
});

describe("guestEmail", () => {
  const long = `${"a".repeat(64)}@${"b".repeat(63)}.${"c".repeat(63)}.${"d".repeat(57)}.com`;
  test.each<[string, unknown]>([
    ["absent", undefined],
    ["null", null],
    ["with a tag and a subdomain", "o'neil.guest+tag@mail.example.co.uk"],
    ["with spaces around", "  guest@example.com "],
    ["254 characters", long],
  ])("accepted: %s", async (_, guestEmail) => {
    expect(long).toHaveLength(254);
    expect((await update({ guestEmail })).id).toBe(formId);
  });

  test.each<[string, unknown[]]>([
    ["no address", ["", "   ", "guest", "guest@", "@example.com", "guest@@example.com", "gu est@example.com"]],
    ["a domain of one label", ["guest@example"]],
    ["misplaced dots or hyphens", ["gu..est@example.com", ".guest@example.com", "guest@-example.com"]],
    ["a second recipient or a display name", ["guest@example.com,other@example.com", "Guest <guest@example.com>"]],
    ["an injected header", ["guest@example.com\r\nBcc: other@example.com", "gu\u0000est@example.com"]],
    ["a letter outside ASCII", ["gäst@example.com", "guest@bücher.example"]],
    ["a quoted local part", ['"guest"@example.com']],
    ["a local part of 65 characters", [`${"a".repeat(65)}@example.com`]],
    ["255 characters", [`a${long.replace(/^a/, "").replace("@", "@e")}`]],
    ["no text", [5, true, ["guest@example.com"]]],
  ])("rejected: %s", (_, values) => expectRejected("guestEmail", values));
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

  test("must be a UUID of 8-4-4-4-12 hexadecimal digits", async () => {
    const uuid = "12345678-1234-1234-1234-1234567890ab";
    const others = [uuid.replaceAll("-", ""), `{${uuid}}`, `urn:uuid:${uuid}`, uuid.replace("b", "g"), `${uuid}\n`];
    await expectRejected("listingId", ["", "x", null, undefined, 7, ...others, ` ${uuid}`]);
  });
});

describe("the whole body", () => {
  test("an unknown property is rejected by name, whatever its value", async () => {
    expect(await catchRejectedByBoth({ guestemail: "guest@example.com" })).toEqual(["guestemail"]);
    expect(await catchRejectedByBoth({ status: undefined, numberOfPets: null })).toEqual(["status", "numberOfPets"]);
    expect(await catchRejectedFields(forms.create(untypedBody({ id: formId })))).toEqual(["id"]);
  });

  test("all faults are reported together, one per field, in the order of the fields, unknown properties last", async () => {
    const everything = {
      ...{ zebra: 1, numberOfGuests: "3", guestEmail: `${"x".repeat(300)}`, apple: 2 },
      ...{ checkOutDate: "2027-06-30T00:00:00Z", listingId: "x" },
    };
    const after = ["numberOfGuests", "guestEmail", "zebra", "apple"];
    for (const [dates, fields] of [
      [{}, ["listingId", "checkOutDate", ...after]],
      [{ checkInDate: "today" }, ["listingId", "checkInDate", ...after]],
      [{ checkInDate: "today", checkOutDate: "later" }, ["listingId", "checkInDate", "checkOutDate", ...after]],
    ] as const) {
      expect(await catchRejectedByBoth({ ...everything, ...dates })).toEqual(fields);
    }
  });

  test("a body that is empty or not an object is rejected", async () => {
    const fields = ["listingId", "checkInDate", "checkOutDate", "numberOfGuests"];
    expect(await catchRejectedFields(forms.create({} as FormBody))).toEqual(fields);
    for (const body of [undefined, null, "x", 7, []]) {
      expect(await catchRejectedFields(forms.create(body as unknown as FormBody))).toEqual(["body"]);
    }
  });

  test.each(["listingId", "checkInDate", "numberOfGuests", "guestEmail"])(
    "an error about %s does not contain the rejected value, nor does its cause",
    async (field) => {
      const created = forms.create(untypedBody({ [field]: "secret-value@@example" }));
      const error = await created.catch((failure: unknown) => failure);
      expect(error).toMatchObject({ serviceCode: "VALIDATION_ERROR", errors: [{ field }] });
      expect(inspect(error, { depth: null, showHidden: true })).not.toContain("secret-value");
    },
  );
});

describe("Idempotency-Key", () => {
  const keyed = (idempotencyKey: string) => asUser(services, owner.userId, { idempotencyKey }).forms;

  test.each([["x"], [" "], ["~ !"], ["k".repeat(255)]])("accepted: %o", async (key) => {
    expect((await keyed(key).create(fixedStay(listingId))).listingId).toBe(listingId);
  });

  test.each([[""], ["k".repeat(256)], ["schlüssel"], ["a\tb"], ["a\u007f"], ["a\n"]])(
    "rejected on create and ignored on update: %o",
    async (key) => {
      expect(await catchRejectedFields(keyed(key).create(fixedStay(listingId)))).toEqual(["Idempotency-Key"]);
      expect((await keyed(key).update({ id: formId, ...fixedStay(listingId) })).id).toBe(formId);
    },
  );
});

/** Values that a coercing schema would accept, with the field that must be rejected. */
const COERCIBLE_VALUES: [field: string, value: unknown][] = [
  ...["3", true, null, "2.0", ["3"]].map((value): [string, unknown] => ["numberOfGuests", value]),
  ...[1_814_367_600_000, null, true, "2027-07-01"].map((value): [string, unknown] => ["checkInDate", value]),
  ...[7, true].map((value): [string, unknown] => ["guestEmail", value]),
];

// trpc-to-openapi changes schemas in place.
test("values are never coerced, neither in direct calls before and after REST requests nor in bodies of REST requests", async () => {
  const stay = fixedStay(listingId);
  const key = await makeKey(owner.userId);
  const gateway = await startTestGateway({ DATABASE_URL: services.db.url });
  const caller = asKey(key);
  const post = (body: unknown) => gateway.request({ method: "POST", path: "/v1/forms", key: key.key, body });
  const list = async (limit: string) =>
    (await gateway.request({ path: `/v1/forms?limit=${limit}`, key: key.key })).status;

  for (const kind of ["direct", "REST", "direct"]) {
    for (const [field, value] of COERCIBLE_VALUES) {
      const body = { ...stay, [field]: value } as FormBody;
      if (kind === "direct") expect(await catchRejectedFields(caller.forms.create(body))).toEqual([field]);
      else expect(await post(body)).toMatchObject({ status: 400, json: { errors: [{ field }] } });
    }
    if (kind === "REST") {
      expect([(await post(stay)).status, await list("5"), await list("true")]).toEqual([201, 200, 400]);
    } else {
      for (const limit of ["5", true, null, new Date(5), "", 2.5, Number.NaN, Number.POSITIVE_INFINITY]) {
        const input = { limit: limit as unknown as number };
        expect(await catchRejectedFields(caller.forms.list(input))).toEqual(["limit"]);
        expect(await catchRejectedFields(caller.listings.list(input))).toEqual(["limit"]);
      }
    }
  }
});
