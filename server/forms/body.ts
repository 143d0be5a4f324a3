import { canonicalEmail, parseInstant } from "../values.js";
import type { FormState, StoredAnswer } from "./queries.js";
import type { ParsedBody } from "./schema.js";

// What clients send: the body of a create or update, and the fields of the form that it sets.

/** A normalized body; instants are milliseconds since 1970. */
export interface CanonicalBody {
  checkInDate: number;
  checkOutDate: number;
  guestEmail: string | null;
  listingId: string;
  numberOfGuests: number;
}

export const canonicalBody = (body: ParsedBody): CanonicalBody => ({
  checkInDate: body.checkInDate.getTime(),
  checkOutDate: body.checkOutDate.getTime(),
  guestEmail: body.guestEmail ? canonicalEmail(body.guestEmail) : null,
  listingId: body.listingId,
  numberOfGuests: body.numberOfGuests,
});

/** The fields that a body sets, without the address, which is encrypted. */
export const stayOf = (body: CanonicalBody) =>
  ({
    listingId: body.listingId,
    checkInDate: new Date(body.checkInDate).toISOString(),
    checkOutDate: new Date(body.checkOutDate).toISOString(),
    numberOfGuests: body.numberOfGuests,
  }) satisfies Partial<FormState>;

/** The body that set these fields, with this address. */
export const bodyOf = (form: StoredAnswer, guestEmail: string | null): CanonicalBody => ({
  listingId: form.listingId,
  checkInDate: parseInstant(form.checkInDate ?? "") ?? Number.NaN,
  checkOutDate: parseInstant(form.checkOutDate ?? "") ?? Number.NaN,
  numberOfGuests: form.numberOfGuests ?? Number.NaN,
  guestEmail,
});
