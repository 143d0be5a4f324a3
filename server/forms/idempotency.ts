import { createHash, createHmac } from "node:crypto";
import { LostRace, type Sql } from "../db.js";
import { notFound, ServiceError } from "../errors.js";
import { membershipInScope } from "../scope.js";
import type { Keys } from "../secrets.js";
import { type LockedListing, RULE_COLUMNS, RULES } from "./locks.js";
import { type FormRow, projectForm } from "./projection.js";
import type { FormV1 } from "./schema.js";

/** The body of a create or update in its one canonical form; instants in milliseconds since 1970. */
export interface CanonicalBody {
  checkInDate: number;
  checkOutDate: number;
  guestEmail: string | null;
  listingId: string;
  numberOfGuests: number;
}

/** HMAC-SHA-256 of the body, one a key, newest first (decisions, "Idempotency"). */
export function fingerprints(keys: Keys, body: CanonicalBody): [Buffer, ...Buffer[]] {
  const { checkInDate, checkOutDate, guestEmail, listingId, numberOfGuests } = body;
  const text = JSON.stringify({ checkInDate, checkOutDate, guestEmail, listingId, numberOfGuests });
  const sign = (key: Buffer) => createHmac("sha256", key).update(text).digest();
  const [first, ...rest] = keys;
  return [sign(first), ...rest.map(sign)];
}

export interface CreateRequest {
  holderId: string;
  key: string | undefined;
  /** Fingerprints of the body, newest key first. */
  fingerprints: readonly [Buffer, ...Buffer[]];
  body: CanonicalBody;
}

/** An earlier creation by the same holder. */
interface Creation {
  formId: string;
  /** Whether it was made by the body of the request. */
  isOfBody: boolean;
  /** Whether its form is still as that body made it. */
  stands: boolean;
  /** Whether its form is on a listing in scope. */
  isInScope: boolean;
  answer: FormRow;
}

/** What there is before a create: the listing, and the creations that the request may repeat. */
export interface Found {
  listing: LockedListing & { rules: string };
  /** The creation that the Idempotency-Key is bound to. */
  byKey: Creation | null;
  /** The creation that a keyless request with this body repeats. */
  byBody: Creation | null;
}

// No EXISTS: it could be answered by a hash of the whole scope.
const creation = `json_build_object('formId', c.form_id, 'isOfBody', c.fingerprint = ANY($4::bytea[]),
  'stands', f.fingerprint = ANY($4::bytea[]), 'answer', c.answer, 'isInScope', coalesce(
    (SELECT true FROM memberships m WHERE ${membershipInScope("$1")} AND m.listing_id = f.listing_id), false))`;

export const FIND = `
  SELECT ${RULE_COLUMNS}, ${RULES} AS rules,
    (
      SELECT ${creation}
      FROM idempotency_keys k JOIN creations c ON c.form_id = k.form_id JOIN forms f ON f.id = c.form_id
      WHERE k.holder_id = $1::uuid AND k.key = $3::text
    ) AS "byKey",
    (
      SELECT ${creation}
      FROM creations c JOIN forms f ON f.id = c.form_id
      WHERE c.holder_id = $1::uuid AND c.current_fingerprint = ANY($4::bytea[])
      LIMIT 1
    ) AS "byBody"
  FROM memberships m JOIN listings l ON l.id = m.listing_id
  WHERE ${membershipInScope("$1")} AND m.listing_id = $2::uuid`;

/** Reads, without a lock, what a create is judged by; RESOURCE_NOT_FOUND where the listing is not in scope. */
export async function find(sql: Sql, { holderId, key, fingerprints, body }: CreateRequest): Promise<Found> {
  const [row] = await sql.query<Found["listing"] & Omit<Found, "listing">>("find-earlier", FIND, [
    holderId,
    body.listingId,
    key ?? null,
    fingerprints,
  ]);
  if (!row) throw notFound();
  const { byKey, byBody, ...listing } = row;
  return { listing, byKey, byBody };
}

/**
 * The answer of the creation that the request repeats, if any; IDEMPOTENCY_KEY_REUSED where its key is bound to
 * another body. A never-seen key is bound to the creation it repeats, except where an update has since made the form
 * differ from the body: then it asks for a second form, and the first is to release the fingerprint.
 */
export async function replay(
  sql: Sql,
  request: CreateRequest,
  { byKey, byBody }: Found,
): Promise<FormV1 | null> {
  if (byKey && !byKey.isOfBody) throw new ServiceError("IDEMPOTENCY_KEY_REUSED");
  const isSecondStay = !byKey && request.key !== undefined && byBody?.stands === false;
  const earlier = byKey ?? byBody;
  if (!earlier || isSecondStay) return null;
  if (!earlier.isInScope) throw notFound();
  if (!byKey && request.key !== undefined) await bind(sql, request.holderId, request.key, earlier.formId);
  return projectForm(earlier.answer);
}

const BIND = `
  INSERT INTO idempotency_keys (holder_id, key, form_id) VALUES ($1::uuid, $2, $3::uuid)
  ON CONFLICT DO NOTHING
  RETURNING form_id`;

async function bind(sql: Sql, holderId: string, key: string, formId: string): Promise<void> {
  const bound = await sql.query("bind-key", BIND, [holderId, key, formId]);
  if (bound.length === 0) throw new LostRace("the Idempotency-Key was bound meanwhile");
}

/** Makes creates of equal bodies wait for each other until the transaction ends, whatever key signs their fingerprints. */
export async function takeTurns(tx: Sql, { holderId, body }: CreateRequest): Promise<void> {
  // Hashed here, so that the database and its logs never see what is in the body.
  const id = createHash("sha256")
    .update(JSON.stringify([holderId, body]))
    .digest()
    .readBigInt64BE();
  await tx.query("take-turns", "SELECT pg_advisory_xact_lock($1::bigint)::text", [id]);
}
