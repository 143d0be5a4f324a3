import type { FieldError } from "./errors.js";
import { type Body, findFaults, parseBody } from "./fake-input.js";
import { FILTER_FIELDS, NEW_FORM } from "./fake-schema.js";
import { runtime } from "./runtime.js";
import type { FormV1, KnownErrorCode, Listing } from "./schema.js";

/** An error response. */
export interface FakeError {
  /** HTTP status. */
  status: number;
  /** Code of the envelope. Default: the service's for this status, or `INTERNAL_ERROR`. */
  code?: KnownErrorCode;
  /** The rejected fields of a `VALIDATION_ERROR`. */
  errors?: FieldError[];
  /** Seconds, in `Retry-After`. Default: 1 for 429 and 503, the service's minimum; otherwise no such header. */
  retryAfter?: number;
}

export class Rejection {
  readonly error: FakeError;
  readonly message: string | undefined;
  readonly headers: Record<string, string> | undefined;
  constructor(error: FakeError, message?: string, headers?: Record<string, string>) {
    this.error = error;
    this.message = message;
    this.headers = headers;
  }
}

export function requireNone(errors: FieldError[]): void {
  if (errors.length > 0) throw new Rejection({ status: 400, errors });
}

export function find<Item extends { id: string }>(items: readonly Item[], id: string | undefined): Item {
  const found = items.find((item) => item.id === id?.toLowerCase());
  if (!found) throw new Rejection({ status: 404 });
  return found;
}

/** `form`: the form before an update. */
export function checkRules(listing: Listing, { numberOfGuests }: Body, form?: FormV1): void {
  const { active, maxPeopleInListing, maxVehicles, allowPets } = listing;
  const { numberOfVehicles, numberOfPets, listingId } = form ?? {};
  const isNew = listingId !== listing.id;
  const maxGuests = maxPeopleInListing ?? Infinity;
  const breaksParty = (numberOfVehicles ?? 0) > (maxVehicles ?? Infinity) || (allowPets === false && numberOfPets);
  const faults: FieldError[] = [];
  if (isNew && !active) faults.push({ field: "listingId", issue: "the listing is not active" });
  if (numberOfGuests > maxGuests)
    faults.push({ field: "numberOfGuests", issue: `must be at most ${maxGuests} on this listing` });
  if (isNew && breaksParty)
    faults.push({ field: "listingId", issue: "the listing does not allow the form's vehicles or pets" });
  requireNone(faults);
}

export const CANCELLED = "CANCELLED";

/** `isCancelling`: whether the update cancels the form. A cancelled form can be cancelled again. */
export function checkStatus({ status }: FormV1, isCancelling: boolean): void {
  const issues: Record<string, string> = isCancelling
    ? { CHECKED_OUT: "a form that is CHECKED_OUT cannot be cancelled" }
    : { [CANCELLED]: "the form is cancelled: create a new one for another booking" };
  const issue = issues[status];
  requireNone(issue === undefined ? [] : [{ field: "cancelled", issue }]);
}

/** Names the form of an Idempotency-Key, if it is in scope. */
export function keyReused(forms: readonly FormV1[], { id }: FormV1): Rejection {
  if (!forms.some((form) => form.id === id)) return new Rejection({ status: 422 });
  const message = `This Idempotency-Key belongs to form ${id}, created with a different request body.`;
  return new Rejection({ status: 422 }, message, { location: `/v1/forms/${id}` });
}

/** The fields of a body that a form has. The others are write-only. */
export const stored = (body: Body) => Object.fromEntries(Object.entries(body).filter(([name]) => name in NEW_FORM));

/** A change of the others does not change `updatedAt`. */
export const contentOf = (form: FormV1) => JSON.stringify({ ...form, guestUrl: null, updatedAt: null });

type Row = { id: string; createdAt: string; listingId?: string };

/** Lists are sorted by it. */
const positionOf = ({ id, createdAt }: Row) => `${createdAt}_${id}`;

/** What a filter compares, if not for equality. */
const MATCHES: Record<string, (form: FormV1, value: string) => boolean> = {
  updatedSince: ({ updatedAt }, value) => updatedAt >= value,
  checkInFrom: ({ checkInDate }, value) => checkInDate !== null && checkInDate >= value,
  checkInTo: ({ checkInDate }, value) => checkInDate !== null && checkInDate < value,
};

export function selectPage<Item extends Row>(kind: "forms" | "listings", inScope: readonly Item[], search: string) {
  const { limit = "50", cursor, ...sent } = Object.fromEntries(new runtime.URLSearchParams(search));
  const fields = kind === "forms" ? FILTER_FIELDS : {};
  const faults = findFaults(sent, fields, "parameter");
  requireNone(/^-?\d+$/.test(limit) ? faults : [{ field: "limit", issue: "must be an integer" }, ...faults]);
  const filters = Object.entries(parseBody(sent, fields)).filter(([, value]) => value !== null);
  const prefix = `${kind}_${JSON.stringify(filters)}_`;
  if (cursor !== undefined && !cursor.startsWith(`${prefix}2`)) {
    throw new Rejection({ status: 400, code: "INVALID_CURSOR" });
  }
  const after = cursor?.slice(prefix.length) ?? "";
  const matches = (row: Record<string, unknown>) =>
    filters.every(([name, value]) => MATCHES[name]?.(row as unknown as FormV1, value as string) ?? row[name] === value);
  const rest = inScope
    .filter((row) => positionOf(row) > after && matches({ ...row }))
    .sort((a, b) => (positionOf(a) < positionOf(b) ? -1 : 1));
  const items = rest.slice(0, Math.min(Math.max(Number(limit), 1), 100));
  const last = rest.length > items.length ? items.at(-1) : undefined;
  return { items, nextCursor: last ? prefix + positionOf(last) : null };
}
