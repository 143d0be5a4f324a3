import { randomUUID } from "node:crypto";
import { z } from "zod";
import { expected } from "./errors.js";
import { A_LANGUAGE, canonicalLanguage } from "./languages.js";

/** A UUID of any version, lower-cased as Postgres prints it. */
export const uuid = z.guid({ error: expected("a UUID") }).toLowerCase();

/** A UUID in an output. Not validated, because it comes from a column of that type. */
export const uuidOut = z.string().meta({ format: "uuid" });

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export const isUuid = (text: string) => UUID.test(text);

/** A new UUID of version 7: a time in milliseconds, then 74 random bits. Those made one after the other stand together in an index. */
export function timeOrderedUuid(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}

/** The text if it is a UUID, else null. */
export const uuidOrNull = (text: string) => (isUuid(text) ? text : null);

/** No row has this id. */
export const NIL_UUID = "00000000-0000-0000-0000-000000000000";

/** The id of a resource, lower-cased. A malformed id becomes the nil UUID, so that the resource is not found. */
export const resourceId = z
  .string({ error: expected("a string") })
  .transform((id) => (isUuid(id) ? id.toLowerCase() : NIL_UUID))
  .meta({ format: "uuid" });

/** The public id of a resource. A malformed one becomes empty, so that the resource is not found. */
export const publicId = z
  .string({ error: expected("a string") })
  .transform((id) => (new RegExp(slug.pattern).test(id) ? id : ""));

/** What may be public ids in a link, which may have one at any place, encoded, or joined to a word. The last come first. */
export function publicIdsIn(link: string): string[] {
  const words = link.replaceAll(/%[\da-f]{2}/gi, " ").match(/[\w-]{21,}/g) ?? [];
  return [...new Set(words.toReversed().flatMap((word) => [word.slice(0, 21), word.slice(-21)]))];
}

const INSTANT =
  /^(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;
const MAX_INSTANT_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/**
 * Parses an ISO 8601 instant with an offset, with or without seconds, to milliseconds since 1970; finer fractions are cut. Returns
 * undefined if it is malformed, not a real date or outside 1970..9999 in UTC.
 */
export function parseInstant(text: string): number | undefined {
  const [, day] = INSTANT.exec(text) ?? [];
  // Date.parse turns 31 February into 3 March.
  if (!day || !new Date(`${day}T00:00Z`).toISOString().startsWith(day)) return undefined;
  const milliseconds = Date.parse(text);
  return milliseconds >= 0 && milliseconds <= MAX_INSTANT_MS ? milliseconds : undefined;
}

const NOT_AN_INSTANT = "must be an ISO 8601 instant with an offset, such as 2026-07-01T15:00:00Z";

const NO_COLON = "the offset needs a colon, such as +02:00";

/** An offset as `+0200` or `+02`. */
const OFFSET_WITHOUT_COLON = /T[\d:.]*[+-]\d{2}(?:\d{2})?$/;

const SPACE_FOR_SIGN = "the offset begins with a space: in a URL, send its + as %2B";

/** An offset as ` 02:00`: a `+` in a URL stands for a space. */
const OFFSET_WITH_SPACE = /T[\d:.]* \d{2}:?\d{2}$/;

const NO_SUCH_INSTANT = "must be a date that exists, from 1970 to 9999";

function faultOf(text: string): string {
  if (INSTANT.test(text)) return NO_SUCH_INSTANT;
  if (OFFSET_WITHOUT_COLON.test(text)) return NO_COLON;
  return OFFSET_WITH_SPACE.test(text) ? SPACE_FOR_SIGN : NOT_AN_INSTANT;
}

/** An instant in an input: all callers send text. */
export const instant = z
  .string({ error: expected("an ISO 8601 instant") })
  .transform((text, { addIssue }) => {
    const instant = parseInstant(text);
    if (instant !== undefined) return new Date(instant);
    addIssue(faultOf(text));
    return z.NEVER;
  })
  .meta({ format: "date-time", maxLength: 35 });

/** A calendar day. */
export const day = z
  .string({ error: expected("a date, such as 2027-07-01") })
  .refine(
    (text) => parseInstant(`${text}T00:00:00Z`) !== undefined,
    "must be a date from 1970 to 9999, such as 2027-07-01",
  );

/** An instant in an output: always `YYYY-MM-DDTHH:mm:ss.sssZ`. */
export const instantOut = z.string().meta({ format: "date-time", maxLength: 24 });

export const INT32_MAX = 2_147_483_647;

/** A 32-bit integer in an output. */
export const int32Out = z.int32().meta({ format: "int32" });

/**
 * Protects a number from coercion: trpc-to-openapi sets every plain number schema to coerce, in place, which would accept
 * "3", true and null from all callers.
 */
export const uncoerced = (schema: z.ZodNumber) => schema.pipe(z.number());

/**
 * A check that sorts an object's issues in the order of its fields, unknown properties last. Otherwise issues of
 * cross-field checks would come after all others.
 */
export function inFieldOrder(shape: Record<string, unknown>) {
  const fields = Object.keys(shape);
  const rank = (path: readonly PropertyKey[] | undefined) => {
    const index = fields.indexOf(String(path?.[0]));
    return index === -1 ? fields.length : index;
  };
  return z.superRefine((_value, { issues }) => void issues.sort((a, b) => rank(a.path) - rank(b.path)), {
    when: () => true,
  });
}

/** OpenAPI metadata of public slugs. */
export const slug = { pattern: "^[A-Za-z0-9_-]{21}$", maxLength: 21 };

/** OpenAPI metadata of a text (`texts.ts`) in an output. */
export const line = (max: number) => ({
  pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
  maxLength: max,
});

/** A 32-bit integer of at least `min`. */
export const count = (min: number) =>
  uncoerced(
    // Not `z.int()`: its issue aborts the checks of the object, so faults between fields would not be reported.
    z
      .number({ error: expected("an integer") })
      .refine(Number.isInteger, "must be an integer")
      .refine((value) => value >= min || !Number.isInteger(value), `must be at least ${min}`)
      .refine((value) => value <= INT32_MAX || !Number.isInteger(value), `must be at most ${INT32_MAX}`),
  ).meta({ type: "integer", format: "int32", minimum: min, maximum: INT32_MAX });

/** A BCP 47 tag of a known language, in any case. */
export const languageTag = z
  .string({ error: expected(A_LANGUAGE) })
  .trim()
  .transform((tag, { addIssue }) => {
    const canonical = canonicalLanguage(tag);
    if (canonical !== undefined) return canonical;
    addIssue(`must be ${A_LANGUAGE}`);
    return z.NEVER;
  })
  .pipe(z.string().max(35, "must be at most 35 characters"));

// A dot-atom of at most 64 characters at a domain of at least two labels: what mail servers accept in practice.
const EMAIL =
  /^(?=[^@]{1,64}@)[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*@(?:[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?\.)+[a-z](?:[a-z\d-]{0,61}[a-z\d])$/i;

/** An email address of at most 254 characters. */
export const emailAddress = z
  .string({ error: expected("an email address") })
  .trim()
  .max(254, "must be at most 254 characters")
  .regex(EMAIL, "must be an email address")
  .meta({ format: "email" });

/** Lower-cases the domain of an address, which is case-insensitive. */
export function canonicalEmail(address: string): string {
  const at = address.lastIndexOf("@");
  return address.slice(0, at) + address.slice(at).toLowerCase();
}

type Required<Given> = { [Name in keyof Given as undefined extends Given[Name] ? never : Name]: Given[Name] };

/** Returns the properties that are not undefined; null is kept. */
export const omitUndefined = <Given extends object>(given: Given) =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Required<Given> & {
    [Name in keyof Given]?: Exclude<Given[Name], undefined>;
  };

/** Splits the items into groups of at most `size`. */
export const inGroups = <Item>(items: readonly Item[], size: number): Item[][] =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, index) => items.slice(index * size, (index + 1) * size));

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export const escapeHtml = (text: string) => text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
