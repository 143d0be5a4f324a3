import { randomUUID } from "node:crypto";
import type { Call, Context } from "../access/context.js";
import { audit } from "../audit-trail/audit.js";
import type { Sql } from "../database/db.js";
import { invalid, notFound } from "../errors.js";
import { type Page, readPage } from "../resources/paging.js";
import { selectList } from "../resources/resource.js";
import { lockUsers } from "../users/store.js";
import { uuidOrNull } from "../values.js";
import { generateKey, hashKey, PREFIX_LENGTH } from "./authenticator.js";
import type * as schema from "./schema.js";
import { type IssuedKey, type KeySummary, keySummary } from "./schema.js";

const COLUMNS = selectList(keySummary, "k");

export function issueKey({ ctx, input }: Call<typeof schema.issueInput>): Promise<IssuedKey> {
  const { userId, mode, label = null, expiresAt } = input;
  if (expiresAt && expiresAt.getTime() <= Date.now()) {
    throw invalid([{ field: "expiresAt", issue: "must be in the future" }]);
  }
  return ctx.services.db.sqlTransaction(async (tx) => {
    await lockUsers(tx, [userId], "userId");
    const issued = await insert(tx, { userId, mode, label, expiresAt: expiresAt?.toISOString() ?? null });
    await audit(tx, ctx, "key.issued", issued.id, { userId, mode });
    return issued;
  });
}

const INSERT = `
  INSERT INTO api_keys (id, user_id, mode, label, expires_at, hash, prefix)
  VALUES ($1::uuid, $2::uuid, $3::"KeyMode", $4, $5::timestamptz, $6::bytea, $7)`;

type NewKey = Pick<KeySummary, "userId" | "mode" | "label" | "expiresAt">;

async function insert(tx: Sql, { userId, mode, label, expiresAt }: NewKey): Promise<IssuedKey> {
  const id = randomUUID();
  const key = generateKey(mode);
  const prefix = key.slice(0, PREFIX_LENGTH);
  await tx.query("insert-key", INSERT, [id, userId, mode, label, expiresAt, hashKey(key), prefix]);
  return { id, key, prefix, mode, expiresAt };
}

const oldestKeys = (condition: string) => `
  SELECT ${COLUMNS}
  FROM api_keys k
  WHERE ${condition} (k.created_at, k.id) > ($1::timestamptz, $2::uuid)
  ORDER BY k.created_at, k.id
  LIMIT $3::int`;

const OLDEST = oldestKeys("");
const OLDEST_OF_USER = oldestKeys("k.user_id = $4::uuid AND");

export function listKeys({ ctx, input }: Call<typeof schema.listInput>): Promise<Page<KeySummary>> {
  const { db } = ctx.services;
  const { userId } = input;
  return readPage(ctx, input, {
    identity: { list: "keys", filters: { userId } },
    order: "oldest first",
    read: (page) =>
      userId === undefined
        ? db.query<KeySummary>("oldest-keys", OLDEST, page)
        : db.query<KeySummary>("oldest-keys-of-user", OLDEST_OF_USER, [...page, userId]),
    project: (row) => row,
  });
}

const FIND = `
  SELECT ${COLUMNS}
  FROM api_keys k
  WHERE k.id = $1::uuid OR k.hash = $2::bytea OR k.prefix = $3::text
  LIMIT 2`;

export async function findKey({ ctx, input: { key } }: Call<typeof schema.findInput>): Promise<KeySummary> {
  const [found, other] = await ctx.services.db.query<KeySummary>("find-key", FIND, [
    uuidOrNull(key),
    hashKey(key),
    key,
  ]);
  if (!found) throw notFound();
  if (other) throw invalid([{ field: "key", issue: "several keys have this prefix: give an id or the whole key" }]);
  return found;
}

const REVOKE = `
  UPDATE api_keys k SET revoked_at = clock_timestamp() WHERE k.id = $1::uuid RETURNING ${COLUMNS}`;

export const revokeKey = ({ ctx, input: { id } }: Call<typeof schema.revokeInput>): Promise<KeySummary> =>
  ctx.services.db.sqlTransaction(async (tx) => {
    const key = await lockKey(tx, id);
    if (key.revokedAt) return key;
    const [revoked = key] = await tx.query<KeySummary>("revoke-key", REVOKE, [id]);
    await audit(tx, ctx, "key.revoked", id);
    return revoked;
  });

const REVOKE_ALL = `
  UPDATE api_keys SET revoked_at = now() WHERE user_id = $1::uuid AND revoked_at IS NULL RETURNING id::text`;

const CLEAR_LABELS = "UPDATE api_keys SET label = NULL WHERE user_id = $1::uuid AND label IS NOT NULL";

/** Revokes all keys of a user, and removes their labels. Returns how many were not revoked before. */
export async function revokeKeysOfUser(tx: Sql, ctx: Context, userId: string): Promise<number> {
  const revoked = await tx.query<{ id: string }>("revoke-keys-of-user", REVOKE_ALL, [userId]);
  await tx.query("clear-labels-of-user", CLEAR_LABELS, [userId]);
  const ids = revoked.map(({ id }) => id);
  await audit(tx, ctx, "key.revoked", ids);
  return ids.length;
}

const REPLACE = `
  UPDATE api_keys
  SET replaced_by = $2::uuid, expires_at = least(expires_at, clock_timestamp() + make_interval(secs => $3::int))
  WHERE id = $1::uuid
  RETURNING id, expires_at AS "expiresAt"`;

export const rotateKey = ({ ctx, input: { id, graceSeconds } }: Call<typeof schema.rotateInput>) =>
  ctx.services.db.sqlTransaction(async (tx) => {
    const old = await lockKey(tx, id);
    if (old.revokedAt || old.isExpired)
      throw invalid([{ field: "id", issue: "the key is revoked or expired: issue a new one" }]);
    if (old.replacedBy) throw invalid([{ field: "id", issue: `the key was already replaced by ${old.replacedBy}` }]);
    const issued = await insert(tx, old);
    const values = [id, issued.id, graceSeconds];
    const [replaces] = await tx.query<{ id: string; expiresAt: string }>("replace-key", REPLACE, values);
    if (!replaces) throw notFound();
    await audit(tx, ctx, "key.rotated", id, { replacedBy: issued.id });
    return { ...issued, replaces };
  });

/** `isExpired`: by the database's clock, by which keys expire. */
const LOCK = `
  SELECT ${COLUMNS}, k.expires_at <= clock_timestamp() AS "isExpired"
  FROM api_keys k WHERE k.id = $1::uuid FOR NO KEY UPDATE`;

async function lockKey(tx: Sql, id: string) {
  const [key] = await tx.query<KeySummary & { isExpired: boolean | null }>("lock-key", LOCK, [id]);
  if (!key) throw notFound();
  return key;
}
