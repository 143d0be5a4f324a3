import { createHmac, hash, type KeyObject } from "node:crypto";
import { membershipInScope } from "../access/scope.js";
import type { Settings } from "../config.js";
import type { Sql, SqlTransaction } from "../database/db.js";
import type { Keys } from "../encryption.js";
import { ServiceError } from "../errors.js";
import { canonicalEmail, parseInstant } from "../values.js";
import { type FormRow, type FormState, restoreForm, type StoredAnswer } from "./queries.js";
import type { ParsedBody } from "./schema.js";
import { ENDED_STATUSES } from "./status.js";

/** A normalized body; instants are milliseconds since 1970. */
export interface CanonicalBody {
  checkInDate: number;
  checkOutDate: number;
  externalId: string | null;
  guestEmail: string | null;
  listingId: string;
  numberOfGuests: number;
}

export const canonicalBody = (body: ParsedBody): CanonicalBody => ({
  checkInDate: body.checkInDate.getTime(),
  checkOutDate: body.checkOutDate.getTime(),
  externalId: body.externalId ?? null,
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
    externalId: body.externalId,
  }) satisfies Partial<FormState>;

/** The body that set these fields, with this address. */
export const bodyOf = (form: StoredAnswer, guestEmail: string | null): CanonicalBody => ({
  listingId: form.listingId,
  checkInDate: parseInstant(form.checkInDate ?? "") ?? Number.NaN,
  checkOutDate: parseInstant(form.checkOutDate ?? "") ?? Number.NaN,
  numberOfGuests: form.numberOfGuests ?? Number.NaN,
  externalId: form.externalId ?? null,
  guestEmail,
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
  const sign = (key: KeyObject) => Buffer.concat([Buffer.of(VERSION), createHmac("sha256", key).update(text).digest()]);
  const [first, ...rest] = keys;
  return [sign(first), ...rest.map(sign)];
}

/** Returns the fingerprint of the same body by the newest key. Undefined if `stored` is of none of these bodies. */
export function renewFingerprint(keys: Keys, stored: Uint8Array, bodies: readonly CanonicalBody[]): Buffer | undefined {
  const same = bodies.map((body) => fingerprints(keys, body)).find((all) => all.some((one) => one.equals(stored)));
  return same?.[0];
}

export interface CreateRequest {
  holderId: string;
  /** The Idempotency-Key. */
  key: string | undefined;
  body: CanonicalBody;
  /** Those of the fingerprints, newest first. */
  keys: Keys;
  /** Fingerprints of the body, one per key. */
  fingerprints: readonly [Buffer, ...Buffer[]];
}

const LOCK = "SELECT pg_advisory_xact_lock(lock) FROM unnest($1::bigint[]) AS lock";

/**
 * Serializes creates with an equal body or the same Idempotency-Key, so that each finds what the previous one committed. Locks
 * the body once per secret, so that processes in different steps of a rotation exclude each other: they have one secret in
 * common. Always locks bodies in the order of their ids, and before the key, to avoid deadlocks.
 */
async function serializeEqualCreates(tx: Sql, request: CreateRequest): Promise<void> {
  const { holderId, key, fingerprints } = request;
  const locks = fingerprints.map((fingerprint) => lockId([holderId, "body", fingerprint.toString("hex")]));
  locks.sort((a, b) => (a < b ? -1 : 1));
  if (key !== undefined) locks.push(lockId([holderId, "key", key]));
  await tx.query("serialize-equal-creates", LOCK, [locks]);
}

// Lock ids appear in pg_locks and database logs. A body's id is derived from its fingerprint, an HMAC, so it confirms no guess.
const lockId = (of: readonly string[]) => hash("sha256", JSON.stringify(of), "buffer").readBigInt64BE();

/** An earlier create by the same holder. */
interface EarlierCreate {
  formId: string;
  isByKey: boolean;
  /** Whether its body equals the request's. */
  hasEqualBody: boolean;
  /** Of its form now. */
  fingerprint: Buffer;
  /** Of its form now, like the next. */
  externalId: string | null;
  status: string;
  /** Whether its form is on a listing in scope. */
  isInScope: boolean;
  /** Whether as many keys as are stored are bound to its form: a key that is not stored may have been used with it. */
  hasAllKeys: boolean;
  answer: StoredAnswer;
  createdAt: string;
}

/** Further keys are not stored: otherwise replays with new keys would add rows without end. */
export const MAX_KEYS_PER_FORM = 10;

/** SQL condition: the form has as many keys as are stored. */
const hasAllKeys = (formId: string) => `(
  SELECT count(*) FROM (SELECT FROM idempotency_keys WHERE form_id = ${formId} LIMIT ${MAX_KEYS_PER_FORM}) AS bound
) = ${MAX_KEYS_PER_FORM}`;

// A scalar subquery, because with EXISTS the planner may hash the whole scope.
const EARLIER = `c.form_id AS "formId", c.fingerprint = ANY($3::bytea[]) AS "hasEqualBody",
  f.fingerprint, f.external_id AS "externalId", f.status, c.answer, f.created_at AS "createdAt",
  ${hasAllKeys("c.form_id")} AS "hasAllKeys", coalesce((
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

/** Waits for equal creates in flight, and then looks for those that have committed. */
export async function findEarlierCreates(tx: Sql, request: CreateRequest): Promise<EarlierCreates> {
  const { holderId, key, fingerprints } = request;
  const values = [holderId, key ?? null, fingerprints];
  const [, rows] = await Promise.all([
    serializeEqualCreates(tx, request),
    tx.query<EarlierCreate>("find-earlier-creates", FIND_EARLIER, values),
  ]);
  return { byKey: rows.find(({ isByKey }) => isByKey), byBody: rows.find(({ isByKey }) => !isByKey) };
}

/**
 * Returns the create that the request replays, if any. Throws IDEMPOTENCY_KEY_REUSED if its key is bound to another body. A
 * new key with the body of a form that was updated since, or has ended, is a new create, unless it may have been used before
 * and not be stored any more, or not at all (gateway/docs/contract.md#idempotency).
 */
export function findOriginal(
  request: CreateRequest,
  { byKey, byBody }: EarlierCreates,
  { IDEMPOTENCY_KEY_RETENTION_DAYS: days }: Pick<Settings, "IDEMPOTENCY_KEY_RETENTION_DAYS">,
): EarlierCreate | undefined {
  if (byKey && !byKey.hasEqualBody) throw keyReused(byKey);
  if (byKey) return byKey;
  const { key, body } = request;
  const isReplaceable = byBody && (ENDED_STATUSES.includes(byBody.status) || !isUnchanged(request, byBody));
  const keptUntil = days === 0 ? Infinity : body.checkOutDate + (24 * days - 1) * HOUR_MS;
  const isNewKey = key !== undefined && !byBody?.hasAllKeys && Date.now() < keptUntil;
  return isNewKey && isReplaceable ? undefined : byBody;
}

/** Whether the form still matches the body. One without an external id matches whatever id an update has added. */
function isUnchanged({ body, keys, fingerprints: sent }: CreateRequest, form: EarlierCreate): boolean {
  const isIdAdded = body.externalId === null && form.externalId !== null;
  const withId = isIdAdded ? fingerprints(keys, { ...body, externalId: form.externalId }) : [];
  return [...sent, ...withId].some((fingerprint) => fingerprint.equals(form.fingerprint));
}

/** Also the difference that the clocks of the process and the database may have. */
const HOUR_MS = 3_600_000;

const keyReused = ({ formId, isInScope }: EarlierCreate) =>
  new ServiceError(
    "IDEMPOTENCY_KEY_REUSED",
    isInScope
      ? {
          location: `/v1/forms/${formId}`,
          message:
            `This Idempotency-Key belongs to form ${formId}, created with a different request body. To change that form, ` +
            `send PUT /v1/forms/${formId}. For another booking, send that booking's own key.`,
        }
      : {},
  );

// Such a replay writes only row locks to the WAL, and the original is on this server's disk. But with a synchronous standby it
// must wait: a create that was interrupted while it waited for the standby is visible, and may not be there.
const COMMIT_WITHOUT_WAITING = `
  SELECT set_config('synchronous_commit', 'off', true) WHERE current_setting('synchronous_standby_names') = ''`;

/** Returns the original response and binds a new key to it. Throws RESOURCE_NOT_FOUND if the form is out of scope now. */
export async function replay(
  tx: SqlTransaction,
  request: CreateRequest,
  { formId, isByKey, hasAllKeys, isInScope, answer, createdAt }: EarlierCreate,
): Promise<FormRow> {
  if (!isInScope) {
    throw new ServiceError("RESOURCE_NOT_FOUND", {
      message: "You no longer have access to the form that this request created.",
    });
  }
  const binds = request.key !== undefined && !isByKey && !hasAllKeys;
  await tx.commit(
    binds ? bindKey(tx, request, formId) : tx.query("commit-without-waiting", COMMIT_WITHOUT_WAITING, []),
  );
  return restoreForm(answer, createdAt);
}

const BIND = `
  INSERT INTO idempotency_keys (holder_id, key, form_id, retention_starts_at)
  SELECT $1::uuid, $2::text, $3::uuid, greatest($4::timestamptz, now())
  WHERE NOT ${hasAllKeys("$3::uuid")}`;

/** Binds the request's key to the form, if it has one and the form has fewer than MAX_KEYS_PER_FORM. */
export async function bindKey(tx: Sql, { holderId, key, body }: CreateRequest, formId: string): Promise<void> {
  if (key === undefined) return;
  await tx.query("bind-key", BIND, [holderId, key, formId, new Date(body.checkOutDate).toISOString()]);
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
