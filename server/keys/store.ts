import type { ApiKey } from "../../prisma/client/client.js";
import type { Call, Context } from "../access/context.js";
import { audit } from "../audit-trail/audit.js";
import { queryIn, type Transaction } from "../database/db.js";
import { invalid, notFound } from "../errors.js";
import { type Page, readPage } from "../resources/paging.js";
import { selectList, selectOf, toSqlRow } from "../resources/resource.js";
import { lockUsers } from "../users/store.js";
import { uuidOrNull } from "../values.js";
import { generateKey, hashKey, PREFIX_LENGTH } from "./authenticator.js";
import type * as schema from "./schema.js";
import { type IssuedKey, issuedKey, type KeySummary, keySummary } from "./schema.js";

const SELECT = selectOf(keySummary);

export function issueKey({ ctx, input }: Call<typeof schema.issueInput>): Promise<IssuedKey> {
  const { userId, mode, label = null, expiresAt = null } = input;
  if (expiresAt && expiresAt.getTime() <= Date.now()) {
    throw invalid([{ field: "expiresAt", issue: "must be in the future" }]);
  }
  return ctx.services.db.transaction(async (tx) => {
    await lockUsers(tx, [userId], "userId");
    const issued = await insert(tx, { userId, mode, label, expiresAt });
    await audit(tx, ctx, "key.issued", issued.id, { userId, mode });
    return issued;
  });
}

async function insert(
  tx: Transaction,
  fields: Pick<ApiKey, "userId" | "mode" | "label" | "expiresAt">,
): Promise<IssuedKey> {
  const key = generateKey(fields.mode);
  const row = await tx.apiKey.create({
    data: { ...fields, hash: hashKey(key) as Uint8Array<ArrayBuffer>, prefix: key.slice(0, PREFIX_LENGTH) },
    select: selectOf(issuedKey.omit({ key: true })),
  });
  return { key, ...toSqlRow(row) };
}

const oldestKeys = (condition: string) => `
  SELECT ${selectList(keySummary, "k")}
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
  SELECT ${selectList(keySummary, "k")}
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

export const revokeKey = ({ ctx, input: { id } }: Call<typeof schema.revokeInput>): Promise<KeySummary> =>
  ctx.services.db.transaction(async (tx) => {
    const { row, now } = await lockKey(tx, id);
    if (row.revokedAt) return toSqlRow(row);
    const revoked = await tx.apiKey.update({ where: { id }, data: { revokedAt: now }, select: SELECT });
    await audit(tx, ctx, "key.revoked", id);
    return toSqlRow(revoked);
  });

const REVOKE_ALL = `
  UPDATE api_keys SET revoked_at = now() WHERE user_id = $1::uuid AND revoked_at IS NULL RETURNING id::text`;

const CLEAR_LABELS = "UPDATE api_keys SET label = NULL WHERE user_id = $1::uuid AND label IS NOT NULL";

/** Revokes all keys of a user, and removes their labels. Returns how many were not revoked before. */
export async function revokeKeysOfUser(tx: Transaction, ctx: Context, userId: string): Promise<number> {
  const revoked = await queryIn<{ id: string }>(tx, "revoke-keys-of-user", REVOKE_ALL, [userId]);
  await queryIn(tx, "clear-labels-of-user", CLEAR_LABELS, [userId]);
  const ids = revoked.map(({ id }) => id);
  await audit(tx, ctx, "key.revoked", ids);
  return ids.length;
}

export const rotateKey = ({ ctx, input }: Call<typeof schema.rotateInput>) =>
  ctx.services.db.transaction(async (tx) => {
    const { row: old, now } = await lockKey(tx, input.id);
    if (old.revokedAt || (old.expiresAt && old.expiresAt <= now))
      throw invalid([{ field: "id", issue: "the key is revoked or expired: issue a new one" }]);
    if (old.replacedBy) throw invalid([{ field: "id", issue: `the key was already replaced by ${old.replacedBy}` }]);
    const { userId, mode, label, expiresAt: end } = old;
    const issued = await insert(tx, { userId, mode, label, expiresAt: end });
    const graceEnd = now.getTime() + input.graceSeconds * 1000;
    const expiresAt = new Date(Math.min(graceEnd, old.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY));
    await tx.apiKey.update({ where: { id: old.id }, data: { expiresAt, replacedBy: issued.id } });
    await audit(tx, ctx, "key.rotated", old.id, { replacedBy: issued.id });
    return { ...issued, replaces: { id: old.id, expiresAt: expiresAt.toISOString() } };
  });

/** Also returns the time by the database's clock, by which keys expire. */
async function lockKey(tx: Transaction, id: string) {
  const [locked] = await tx.$queryRaw<{ now: Date }[]>`
    SELECT clock_timestamp() AS now FROM api_keys WHERE id = ${id}::uuid FOR NO KEY UPDATE`;
  const row = await tx.apiKey.findUnique({ where: { id }, select: SELECT });
  if (!row || !locked) throw notFound();
  return { row, now: locked.now };
}
