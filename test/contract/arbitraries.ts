import fc from "fast-check";
import { INT32_MAX } from "../../server/values.js";

export const anyText = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ unit: "grapheme" }),
  fc.string(),
  fc.constantFrom("", " ", "null", "undefined", "__proto__", "%", "%00", "'--", "../..", "\0", "💣"),
);

const digits = (value: number, length = 2) => String(value).padStart(length, "0");

/** An ISO 8601 instant in any accepted notation, and its value. */
const anyInstant = fc
  .record({
    ms: fc.integer({ min: Date.UTC(1971, 0), max: Date.UTC(9998, 0) }),
    offset: fc.option(fc.integer({ min: -23 * 60 - 59, max: 23 * 60 + 59 }), { freq: 3 }),
    fraction: fc.option(fc.stringMatching(/^\d{0,6}$/)),
  })
  .map(({ ms, offset, fraction }) => {
    const whole = fraction === null ? ms - (ms % 1000) : ms;
    const local = new Date(whole + (offset ?? 0) * 60_000).toISOString();
    const minutes = Math.abs(offset ?? 0);
    const zone =
      offset === null ? "Z" : `${offset < 0 ? "-" : "+"}${digits(Math.floor(minutes / 60))}:${digits(minutes % 60)}`;
    return { text: (fraction === null ? local.slice(0, 19) : local.slice(0, 23) + fraction) + zone, ms: whole };
  });

/** Without NaN and the infinities: JSON makes them null, and null is valid as an email address. */
const anyNumber = fc.double({ noNaN: true, noDefaultInfinity: true });

/** Any short JSON value. */
export const anyJunk = fc.oneof(
  anyText,
  fc.integer(),
  anyNumber,
  fc.boolean(),
  fc.constant(null),
  fc.constant([]),
  fc.constant({}),
  fc.array(fc.integer(), { maxLength: 3 }),
);

interface Part {
  /** Undefined omits the property. */
  value: unknown;
  isValid: boolean;
}
const valid = (value: unknown): Part => ({ value, isValid: true });
const invalid = (value: unknown): Part => ({ value, isValid: false });
const mostly = (one: fc.Arbitrary<Part>, other: fc.Arbitrary<Part>) =>
  fc.oneof({ arbitrary: one, weight: 6 }, { arbitrary: other, weight: 1 });
const looksLikeInstant = (value: unknown) => typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value);

const instantPart = mostly(
  anyInstant.map(({ text }) => valid(text)),
  fc
    .oneof(anyJunk, fc.constant(undefined))
    .filter((value) => !looksLikeInstant(value))
    .map(invalid),
);

/** The parts of a body, each of them usually valid. */
export const mostlyValid = fc.record({
  listingId: mostly(
    fc.constantFrom("toLowerCase" as const, "toUpperCase" as const).map(valid),
    fc.oneof(anyJunk, fc.constant(undefined)).map(invalid),
  ),
  checkInDate: instantPart,
  checkOutDate: instantPart,
  numberOfGuests: mostly(
    fc.integer({ min: 1, max: 4 }).map(valid),
    fc
      .oneof(anyJunk, fc.constant(undefined))
      .filter((value) => !(Number.isInteger(value) && (value as number) >= 1 && (value as number) <= INT32_MAX))
      .map(invalid),
  ),
  guestEmail: mostly(
    fc.constantFrom(undefined, null, "ana@example.com", "Ana.B+c@Mail.Example.COM").map(valid),
    anyJunk.filter((value) => value !== null && !String(value).includes("@")).map(invalid),
  ),
});

export type Parts = Record<"listingId" | "checkInDate" | "checkOutDate" | "numberOfGuests" | "guestEmail", Part>;

/** Any bytes but line breaks, as Latin-1, and any printable ASCII. */
export const anyHeaderValue = fc.oneof(
  fc.string({
    unit: fc
      .nat(0xff)
      .filter((n) => n !== 10 && n !== 13)
      .map((n) => String.fromCharCode(n)),
    maxLength: 300,
  }),
  fc.stringMatching(/^[ -~]{0,300}$/),
);

const anyToken = fc.stringMatching(/^[!-~]([ -~]{0,40}[!-~])?$/);

/** Every way to send a valid key and JSON, with headers that must not change the response. */
export const anyHeaders = fc.record({
  key: fc.constantFrom<((key: string) => Record<string, string>)[]>(
    (key) => ({ Authorization: `Bearer ${key}` }),
    (key) => ({ authorization: `bEARER ${key}` }),
    (key) => ({ "X-API-Key": key }),
    (key) => ({ "x-api-key": key, Authorization: `bearer ${key}` }),
  ),
  contentType: fc.constantFrom(
    "application/json",
    "Application/JSON; Charset=UTF-8",
    'application/json ; charset="utf-8"',
    "application/json; profile=x",
  ),
  idempotencyKey: fc.option(fc.stringMatching(/^[ -~]{0,200}$/)),
  other: fc.dictionary(
    fc.constantFrom("Accept", "Accept-Language", "If-None-Match", "Range", "User-Agent", "Cookie", "X-Api-Version"),
    anyToken,
  ),
});
