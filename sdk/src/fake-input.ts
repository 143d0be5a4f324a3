import type { FieldError } from "./errors.js";
import type { FieldSchema } from "./fake-schema.js";
import { isObject } from "./json.js";
import type { FormInput } from "./schema.js";

const INSTANT = /^(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/;
const EMAIL =
  /^(?=.{3,254}$)(?=[^@]{1,64}@)[\w!#$%&'*+/=?^`{|}~-]+(\.[\w!#$%&'*+/=?^`{|}~-]+)*@([a-z\d]([a-z\d-]{0,61}[a-z\d])?\.)+[a-z]([a-z\d-]{0,61}[a-z\d])$/i;
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

export const isUuid = (value: string | undefined) => value !== undefined && UUID.test(value);

/** In milliseconds since 1970; NaN if the service rejects it. */
function parseInstant(value: unknown): number {
  const [text = "", day = ""] = INSTANT.exec(typeof value === "string" ? value : "") ?? [];
  const midnight = Date.parse(`${day}T00:00Z`);
  // Date.parse turns 31 February into 3 March.
  const isDay = !Number.isNaN(midnight) && new Date(midnight).toISOString().startsWith(day);
  return isDay ? Date.parse(text) : Number.NaN;
}

const isInstant = (value: string) => parseInstant(value) >= 0 && parseInstant(value) < Date.UTC(10_000, 0);

interface Format {
  isValid(value: string): boolean;
  /** Equal values are equal in this form. */
  normalize(value: string): string;
}

const FORMATS: Record<string, Format> = {
  uuid: { isValid: isUuid, normalize: (value) => value.toLowerCase() },
  "date-time": {
    isValid: isInstant,
    normalize: (value) => new Date(parseInstant(value)).toISOString(),
  },
  email: {
    isValid: (value) => EMAIL.test(value.trim()),
    normalize: (value) => value.trim().replace(/@.*/, (at) => at.toLowerCase()),
  },
};

const formatOf = ({ format = "" }: FieldSchema): Format | undefined => FORMATS[format];

function isValid(value: unknown, schema: FieldSchema): boolean {
  const { type, isRequired, isNullable, minimum = 0, maximum = 0, maxLength = 0, pattern = "" } = schema;
  if (value === undefined) return !isRequired;
  if (value === null) return isNullable;
  if (schema.const !== undefined) return value === schema.const;
  if (schema.enum) return schema.enum.includes(value as string);
  if (type === "integer") return Number.isInteger(value) && Number(value) >= minimum && Number(value) <= maximum;
  if (typeof value !== type) return false;
  if (typeof value !== "string") return true;
  return formatOf(schema)?.isValid(value) ?? isText(value.trim(), maxLength, pattern);
}

/** The service rejects more than the pattern says. */
const UNSAFE = /[\p{Cs}\p{Bidi_Control}]/u;

const isText = (value: string, maxLength: number, pattern: string) =>
  value !== "" && value.length <= maxLength && new RegExp(pattern, "u").test(value) && !UNSAFE.test(value);

/** Each instant, and the one that it must be after. */
const BEGIN: Record<string, string> = { checkOutDate: "checkInDate", checkInTo: "checkInFrom" };

/** The faults of a body that do not depend on the listing, or those of a list's filters. */
export function findFaults(
  body: unknown,
  fields: Record<string, FieldSchema>,
  kind: "property" | "parameter" = "property",
): FieldError[] {
  if (!isObject(body)) return [{ field: "body", issue: "must be a JSON object" }];
  const faults = Object.entries(fields).flatMap(([field, schema]): FieldError[] => {
    const value = body[field];
    if (!isValid(value, schema)) return [{ field, issue: value === undefined ? "is required" : "is not valid" }];
    const begin = BEGIN[field] ?? "";
    const isTooEarly = parseInstant(value) <= parseInstant(body[begin]);
    return isTooEarly ? [{ field, issue: `must be after ${begin}` }] : [];
  });
  const unknown = Object.keys(body).filter((field) => !Object.hasOwn(fields, field));
  return [...faults, ...unknown.map((field) => ({ field, issue: `is not a known ${kind}` }))];
}

/** Every field of a body, null if it is absent. */
export type Body = Pick<FormInput, "listingId" | "numberOfGuests"> & Record<string, unknown>;

/** What a body without faults sets. Equal bodies are equal as JSON. */
export function parseBody(body: Record<string, unknown>, fields: Record<string, FieldSchema>): Body {
  const values = Object.entries(fields).map(([name, schema]) => {
    const value = body[name] ?? null;
    return [name, typeof value === "string" ? (formatOf(schema)?.normalize(value) ?? value.trim()) : value];
  });
  return Object.fromEntries(values);
}
