import { createHmac } from "node:crypto";
import type { Keys } from "../secrets.js";
import { canonicalEmail, parseInstant } from "../values.js";
import type { FormBody } from "./schema.js";

/** The body of a create or update in its one canonical form; instants in milliseconds since 1970. */
export interface CanonicalBody {
  checkInDate: number;
  checkOutDate: number;
  guestEmail: string | null;
  listingId: string;
  numberOfGuests: number;
}

export const canonicalBody = (body: FormBody): CanonicalBody => ({
  checkInDate: parseInstant(body.checkInDate) ?? Number.NaN,
  checkOutDate: parseInstant(body.checkOutDate) ?? Number.NaN,
  guestEmail: body.guestEmail ? canonicalEmail(body.guestEmail) : null,
  listingId: body.listingId,
  numberOfGuests: body.numberOfGuests,
});

/**
 * The same text for equal bodies. Absent fields are left out, so that an optional field added later changes no text of a
 * body without it.
 */
export function canonicalText(body: CanonicalBody): string {
  const present = Object.entries(body).filter(([, value]) => value !== null && value !== undefined);
  return JSON.stringify(Object.fromEntries(present.sort(([a], [b]) => (a < b ? -1 : 1))));
}

/** First byte of a fingerprint: how it was made. To change the text or the HMAC, add a version and try both. */
const VERSION = 1;

/**
 * The fingerprints by which an equal body is recognised, one per key, newest first: a version byte and HMAC-SHA-256 over
 * the canonical text.
 */
export function fingerprints(keys: Keys, body: CanonicalBody): [Buffer, ...Buffer[]] {
  const text = canonicalText(body);
  const sign = (key: Buffer) =>
    Buffer.concat([Buffer.of(VERSION), createHmac("sha256", key).update(text).digest()]);
  const [first, ...rest] = keys;
  return [sign(first), ...rest.map(sign)];
}
