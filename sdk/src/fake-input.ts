import type { FieldError } from "./errors.js";
import { isObject } from "./json.js";

const INSTANT = /^(\d{4}-\d\d-\d\d)T([01]\d|2[0-3])(:[0-5]\d){2}(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/;
const EMAIL =
  /^(?=.{3,254}$)(?=[^@]{1,64}@)[\w!#$%&'*+/=?^`{|}~-]+(\.[\w!#$%&'*+/=?^`{|}~-]+)*@([a-z\d]([a-z\d-]{0,61}[a-z\d])?\.)+[a-z]([a-z\d-]{0,61}[a-z\d])$/i;
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

export const isUuid = (value: unknown) => typeof value === "string" && UUID.test(value);

/** In milliseconds since 1970; NaN if the service rejects it. */
function parseInstant(value: unknown): number {
  const [text = "", day = ""] = INSTANT.exec(typeof value === "string" ? value : "") ?? [];
  const midnight = Date.parse(`${day}T00:00Z`);
  // Date.parse turns 31 February into 3 March.
  const isDay = !Number.isNaN(midnight) && new Date(midnight).toISOString().startsWith(day);
  return isDay ? Date.parse(text) : Number.NaN;
}

const isInstant = (value: unknown) => parseInstant(value) >= 0 && parseInstant(value) < Date.UTC(10_000, 0);

/** The fields of a body in order, and what each must be. */
const FIELDS: Record<string, [isValid: (value: unknown) => boolean, expected: string]> = {
  listingId: [isUuid, "a UUID"],
  checkInDate: [isInstant, "an ISO 8601 instant with seconds and an offset"],
  checkOutDate: [isInstant, "an ISO 8601 instant with seconds and an offset"],
  numberOfGuests: [(value) => Number(value) >= 1 && value === ~~Number(value), "an integer of at least 1"],
  guestEmail: [(value) => value == null || (typeof value === "string" && EMAIL.test(value.trim())), "an email address"],
};

/** The faults of a body that do not depend on the listing. */
export function findFaults(body: unknown): FieldError[] {
  if (!isObject(body)) return [{ field: "body", issue: "must be a JSON object" }];
  const faults = Object.entries(FIELDS).flatMap(([field, [isValid, expected]]): FieldError[] => {
    const value = body[field];
    if (!isValid(value)) return [{ field, issue: value === undefined ? "is required" : `must be ${expected}` }];
    const isTooEarly = field === "checkOutDate" && parseInstant(value) <= parseInstant(body.checkInDate);
    return isTooEarly ? [{ field, issue: "must be after checkInDate" }] : [];
  });
  const unknown = Object.keys(body).filter((field) => !Object.hasOwn(FIELDS, field));
  return [...faults, ...unknown.map((field) => ({ field, issue: "is not a known property" }))];
}

/** What a body without faults sets. Equal bodies are equal as JSON. */
export const parseStay = (body: Record<string, unknown>) => ({
  listingId: String(body.listingId).toLowerCase(),
  checkInDate: new Date(parseInstant(body.checkInDate)).toISOString(),
  checkOutDate: new Date(parseInstant(body.checkOutDate)).toISOString(),
  numberOfGuests: Number(body.numberOfGuests),
  guestEmail:
    body.guestEmail == null
      ? null
      : String(body.guestEmail)
          .trim()
          .replace(/@.*/, (at) => at.toLowerCase()),
});

export type Stay = ReturnType<typeof parseStay>;
