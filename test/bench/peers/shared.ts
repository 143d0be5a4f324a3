// What the peers take from the service, so that their bytes are equal: fields, cursors, fingerprints and sealed addresses.
import { nanoid } from "nanoid";
import { deriveKeyring, seal } from "../../../server/encryption.js";
import { canonicalBody, fingerprints, stayOf } from "../../../server/forms/idempotency.js";
import type { ParsedBody } from "../../../server/forms/schema.js";
import { hashKey } from "../../../server/keys/authenticator.js";
import { decodeCursor, encodeCursor } from "../../../server/resources/paging.js";
import { timeOrderedUuid } from "../../../server/values.js";

const { DATABASE_URL = "", APP_SECRETS = "", PORT, RATE_LIMIT_MAX } = process.env;
export const settings = { databaseUrl: DATABASE_URL, port: Number(PORT), rateLimit: Number(RATE_LIMIT_MAX) };
const keyring = deriveKeyring([APP_SECRETS]);

export const hashBearer = (authorization = "") => Buffer.from(hashKey(authorization.slice("Bearer ".length)));

const LIST = { list: "forms" } as const;

export const readCursor = (cursor: string | undefined) =>
  cursor === undefined ? undefined : decodeCursor(keyring.cursor, LIST, cursor);

/** Makes the page; `rows` has one row more than `limit` if another page follows. */
export function toPage<Row extends { id: string; createdAt: string | Date }>(rows: Row[], limit: number) {
  const items = rows.slice(0, limit);
  const last = rows.length > limit ? items.at(-1) : undefined;
  const position = last && { createdAt: new Date(last.createdAt).getTime(), id: last.id };
  return { items, nextCursor: position ? encodeCursor(keyring.cursor, LIST, position) : null };
}

/** A new form, and its response as stored for replays. */
export function newForm(body: ParsedBody) {
  const canonical = canonicalBody(body);
  const { guestEmail } = canonical;
  const values = { id: timeOrderedUuid(), publicId: nanoid(), ...stayOf(canonical) };
  return {
    ...values,
    guestEmail: guestEmail === null ? null : Buffer.from(seal(keyring.email, guestEmail, values.id)),
    fingerprint: Buffer.from(fingerprints(keyring.fingerprint, canonical)[0]),
    answer: { ...values, status: "SENT", numberOfVehicles: null, numberOfPets: null },
  };
}
