import { createHmac, hash, type KeyObject } from "node:crypto";
import type { Sql, SqlTransaction } from "../db.js";
import { ServiceError } from "../errors.js";
import { membershipInScope } from "../scope.js";
import type { Keys } from "../secrets.js";
import { canonicalEmail, parseInstant } from "../values.js";
import { restoreForm, type StoredAnswer } from "./queries.js";
import type { FormBody, FormV1 } from "./schema.js";

/** A normalized create or update body; instants are milliseconds since 1970. */
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

/** Returns the same text for equal bodies. Omits absent fields, so that adding an optional field changes no existing text. */
function canonicalText(body: CanonicalBody): string {
  const present = Object.entries(body).filter(([, value]) => value !== null && value !== undefined);
  return JSON.stringify(Object.fromEntries(present.sort(([a], [b]) => (a < b ? -1 : 1))));
}

/** First byte of a fingerprint: its format. To change the text or the HMAC, add a version and try both. */
const VERSION = 1;

/**
 * Returns the fingerprints of a body, one per key, newest first: a version byte and the HMAC-SHA-256 of the canonical text.
 */
export function fingerprints(keys: Keys, body: CanonicalBody): [Buffer, ...Buffer[]] {
  const text = canonicalText(body);
  const sign = (key: KeyObject) =>
    Buffer.concat([Buffer.of(VERSION), createHmac("sha256", key).update(text).digest()]);
  const [first, ...rest] = keys;
  return [sign(first), ...rest.map(sign)];
}

/** Returns the fingerprint of the same body by the newest key. Undefined if `stored` is of none of these bodies. */
export function renewFingerprint(
  keys: Keys,
  stored: Uint8Array,
  bodies: readonly CanonicalBody[],
): Buffer | undefined {
  const same = bodies
    .map((body) => fingerprints(keys, body))
    .find((all) => all.some((one) => one.equals(stored)));
  return same?.[0];
}

export interface CreateRequest {
  holderId: string;
  /** The Idempotency-Key. */
  key: string | undefined;
  body: CanonicalBody;
  /** Fingerprints of the body, newest secret first. */
  fingerprints: readonly [Buffer, ...Buffer[]];
}

const LOCK = "SELECT pg_advisory_xact_lock(lock) FROM unnest($1::bigint[]) AS lock";

/**
 * Serializes creates with an equal body or the same Idempotency-Key, so that each sees what the previous one committed.
 * Always locks the body before the key, to avoid deadlocks.
 */
export async function serializeEqualCreates(tx: Sql, { holderId, key, body }: CreateRequest): Promise<void> {
  const locks = [lockId([holderId, "body", canonicalText(body)])];
  if (key !== undefined) locks.push(lockId([holderId, "key", key]));
  await tx.query("serialize-equal-creates", LOCK, [locks]);
}

// Hashed here, so that the body does not appear in database logs.
const lockId = (of: readonly string[]) => hash("sha256", JSON.stringify(of), "buffer").readBigInt64BE();

/** An earlier create by the same holder. */
interface EarlierCreate {
  formId: string;
  isByKey: boolean;
  /** Whether its body equals the request's. */
  hasEqualBody: boolean;
  /** Whether its form still matches that body. */
  isUnchanged: boolean;
  /** Whether its form is on a listing in scope. */
  isInScope: boolean;
  answer: StoredAnswer;
  createdAt: string;
}

// A scalar subquery, because with EXISTS the planner may hash the whole scope.
const EARLIER = `c.form_id AS "formId", c.fingerprint = ANY($3::bytea[]) AS "hasEqualBody",
  f.fingerprint = ANY($3::bytea[]) AS "isUnchanged", c.answer, f.created_at AS "createdAt", coalesce((
    SELECT true FROM memberships m WHERE ${membershipInScope("$1")} AND m.listing_id = f.listing_id), false) AS "isInScope"`;

const FIND_EARLIER = `
  (
    SELECT true AS "isByKey", ${EARLIER}
    FROM idempotency_keys k JOIN creations c ON c.form_id = k.form_id JOIN forms f ON f.id = c.form_id
    WHERE k.holder_id = $1::uuid AND k.key = $2::text
  ) UNION ALL (
    SELECT false AS "isByKey", ${EARLIER}
    FROM creations c JOIN forms f ON f.id = c.form_id
    WHERE c.holder_id = $1::uuid AND c.current_fingerprint = ANY($3::bytea[])
    LIMIT 1
  )`;

/** Creates that the request may replay: the one bound to its key, and the one with an equal body. */
export interface EarlierCreates {
  byKey: EarlierCreate | undefined;
  byBody: EarlierCreate | undefined;
}

export async function findEarlierCreates(tx: Sql, request: CreateRequest): Promise<EarlierCreates> {
  const { holderId, key, fingerprints } = request;
  const rows = await tx.query<EarlierCreate>("find-earlier-creates", FIND_EARLIER, [
    holderId,
    key ?? null,
    fingerprints,
  ]);
  return { byKey: rows.find(({ isByKey }) => isByKey), byBody: rows.find(({ isByKey }) => !isByKey) };
}

/**
 * Returns the create that the request replays, if any. Throws IDEMPOTENCY_KEY_REUSED if its key is bound to another body. A
 * new key with the body of a form that was updated since is a new create (gateway/docs/contract.md#idempotency).
 */
export function findOriginal(
  { key }: CreateRequest,
  { byKey, byBody }: EarlierCreates,
): EarlierCreate | undefined {
  if (byKey && !byKey.hasEqualBody) throw new ServiceError("IDEMPOTENCY_KEY_REUSED");
  if (byKey) return byKey;
  return key !== undefined && byBody?.isUnchanged === false ? undefined : byBody;
}

/** Returns the original response and binds a new key to it. Throws RESOURCE_NOT_FOUND if the form is out of scope now. */
export async function replay(
  tx: SqlTransaction,
  { holderId, key }: CreateRequest,
  { formId, isByKey, isInScope, answer, createdAt }: EarlierCreate,
): Promise<FormV1> {
  if (!isInScope) {
    throw new ServiceError("RESOURCE_NOT_FOUND", {
      message: "You no longer have access to the form that this request created.",
    });
  }
  await Promise.all([key !== undefined && !isByKey && bindKey(tx, holderId, key, formId), tx.commit()]);
  return restoreForm(answer, createdAt);
}

const BIND = "INSERT INTO idempotency_keys (holder_id, key, form_id) VALUES ($1::uuid, $2::text, $3::uuid)";

export async function bindKey(tx: Sql, holderId: string, key: string, formId: string): Promise<void> {
  await tx.query("bind-key", BIND, [holderId, key, formId]);
}

const RELEASE = "UPDATE creations SET current_fingerprint = NULL WHERE form_id = $1::uuid";

/** From now on, equal requests without a key replay the newer create instead of this one. */
export async function releaseFingerprint(tx: Sql, { formId }: EarlierCreate): Promise<void> {
  await tx.query("release-fingerprint", RELEASE, [formId]);
}

// If a create with an equal body was made while the old secret was not listed, that one stays the one to replay.
const RENEW = `
  UPDATE creations c SET fingerprint = $2::bytea, secret_id = $3::text, current_fingerprint =
    CASE WHEN c.current_fingerprint IS NOT NULL AND NOT EXISTS (
      SELECT FROM creations o
      WHERE o.holder_id = c.holder_id AND o.current_fingerprint = $2::bytea AND o.form_id <> c.form_id
    ) THEN $2::bytea END
  WHERE c.form_id = $1::uuid`;

/** Stores the same body's fingerprint made with another secret. */
export async function renewCreation(
  sql: Sql,
  { formId, fingerprint, secretId }: { formId: string; fingerprint: Uint8Array; secretId: string },
): Promise<void> {
  await sql.query("renew-creation", RENEW, [formId, fingerprint, secretId]);
}
