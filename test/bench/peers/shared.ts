// What all peers share with the service, so that their bytes are equal: cursors, fingerprints and sealed emails.
import { createHash, randomUUID } from "node:crypto";
import { nanoid } from "nanoid";
import { deriveKeyring, seal } from "../../../server/encryption.js";
import { canonicalBody } from "../../../server/forms/body.js";
import { fingerprints } from "../../../server/forms/idempotency.js";
import { decodeCursor, encodeCursor, type ListIdentity } from "../../../server/resources/paging.js";
import { parseInstant } from "../../../server/values.js";
import { STATUSES } from "../public.js";

const { DATABASE_URL = "", APP_SECRETS = "", PORT, RATE_LIMIT_MAX } = process.env;
export const settings = { databaseUrl: DATABASE_URL, port: Number(PORT), rateLimit: Number(RATE_LIMIT_MAX) };
const keyring = deriveKeyring([APP_SECRETS]);

export const hashKey = (authorization = "") =>
  createHash("sha256").update(authorization.slice("Bearer ".length)).digest();

const PUBLIC = new Set(STATUSES);
export const publicStatus = (status: string) => (PUBLIC.has(status) ? status : "UNKNOWN");

export const LISTS = { forms: { list: "forms" }, listings: { list: "listings" } } satisfies Record<
  string,
  ListIdentity
>;

export const readCursor = (identity: ListIdentity, cursor: string | undefined) =>
  cursor === undefined ? undefined : decodeCursor(keyring.cursor, identity, cursor);

/** Makes the page; `rows` has one row more than `limit` if another page follows. */
export function toPage<Row extends { id: string; createdAt: string | Date }>(
  rows: Row[],
  limit: number,
  identity: ListIdentity,
) {
  if (rows.length <= limit) return { items: rows, nextCursor: null };
  rows.length = limit;
  const { id, createdAt } = rows[limit - 1] as Row;
  const position = { createdAt: new Date(createdAt).getTime(), id };
  return { items: rows, nextCursor: encodeCursor(keyring.cursor, identity, position) };
}

export interface CreateBody {
  listingId: string;
  checkInDate: string;
  checkOutDate: string;
  numberOfGuests: number;
  guestEmail?: string | null | undefined;
}

/** The values of a new form; undefined if the stay ends before it begins. */
export function newForm(body: CreateBody) {
  const checkInDate = new Date(parseInstant(body.checkInDate) ?? Number.NaN);
  const checkOutDate = new Date(parseInstant(body.checkOutDate) ?? 0);
  if (!(checkOutDate > checkInDate)) return undefined;
  const listingId = body.listingId.toLowerCase();
  const id = randomUUID();
  const canonical = canonicalBody({ ...body, listingId, checkInDate, checkOutDate });
  return {
    id,
    publicId: nanoid(),
    listingId,
    checkInDate,
    checkOutDate,
    numberOfGuests: body.numberOfGuests,
    guestEmail: canonical.guestEmail && seal(keyring.email, canonical.guestEmail, id),
    fingerprint: fingerprints(keyring.fingerprint, canonical)[0],
    correlationId: randomUUID(),
  };
}
