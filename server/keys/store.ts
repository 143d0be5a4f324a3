import type { z } from "zod";
import type { ApiKey, Prisma } from "../../prisma/client/client.js";
import { audit } from "../audit.js";
import type { Context } from "../context.js";
import type { Transaction } from "../db.js";
import { invalid, notFound } from "../errors.js";
import { keysetValues, type Page, readPage } from "../paging.js";
import { assertUserExists } from "../people/store.js";
import { parseInstant } from "../values.js";
import { generateKey, hashKey, PREFIX_LENGTH } from "./authenticator.js";
import type { IssuedKey, issueInput, KeySummary, listInput, RotatedKey, rotateInput } from "./schema.js";

/** Creates a key for a user and returns it for the only time. */
export function issueKey(context: Context, input: z.output<typeof issueInput>): Promise<IssuedKey> {
  const expiresAt = input.expiresAt ? new Date(parseInstant(input.expiresAt) ?? Number.NaN) : null;
  if (expiresAt && expiresAt.getTime() <= Date.now()) {
    throw invalid([{ field: "expiresAt", issue: "must be in the future" }]);
  }
  return context.services.db.transaction(async (tx) => {
    const { userId } = input;
    await assertUserExists(tx, userId, "userId");
    const issued = await insert(tx, { userId, mode: input.mode, label: input.label ?? null, expiresAt });
    await audit(tx, context, "key.issued", issued.id, { userId, mode: issued.mode });
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
    select: SUMMARY,
  });
  const { id, prefix, mode, expiresAt } = summarize(row);
  return { id, key, prefix, mode, expiresAt };
}

const SUMMARY = {
  id: true,
  userId: true,
  prefix: true,
  mode: true,
  label: true,
  createdAt: true,
  expiresAt: true,
  revokedAt: true,
  lastUsedAt: true,
} satisfies Prisma.ApiKeySelect;

const summarize = (row: Prisma.ApiKeyGetPayload<{ select: typeof SUMMARY }>): KeySummary => ({
  ...row,
  createdAt: row.createdAt.toISOString(),
  expiresAt: row.expiresAt?.toISOString() ?? null,
  revokedAt: row.revokedAt?.toISOString() ?? null,
  lastUsedAt: row.lastUsedAt?.toISOString() ?? null,
});

const oldestKeys = (condition: string) => `
  SELECT id, user_id AS "userId", prefix, mode::text, label, created_at AS "createdAt", expires_at AS "expiresAt",
    revoked_at AS "revokedAt", last_used_at AS "lastUsedAt"
  FROM api_keys
  WHERE ${condition} (created_at, id) > ($1::timestamptz, $2::uuid)
  ORDER BY created_at, id
  LIMIT $3::int`;

const OLDEST = oldestKeys("");
const OLDEST_OF_USER = oldestKeys("user_id = $4::uuid AND");

/** A page of all keys or one user's, oldest first, including revoked and expired ones. */
export const listKeys = (
  { services: { db, keyring } }: Context,
  { userId, ...page }: z.output<typeof listInput>,
): Promise<Page<KeySummary>> =>
  readPage({
    ...page,
    keys: keyring.cursor,
    identity: { list: "keys", userId },
    read: (after, take) =>
      userId === undefined
        ? db.query<KeySummary>("oldest-keys", OLDEST, keysetValues(after, take))
        : db.query<KeySummary>("oldest-keys-of-user", OLDEST_OF_USER, [...keysetValues(after, take), userId]),
  });

/** Revokes a key; one already revoked keeps its `revokedAt`. RESOURCE_NOT_FOUND if there is none. */
export function revokeKey(context: Context, id: string): Promise<KeySummary> {
  return context.services.db.transaction(async (tx) => {
    const row = await lockKey(tx, id);
    if (row.revokedAt) return summarize(row);
    const revoked = await tx.apiKey.update({
      where: { id: row.id },
      data: { revokedAt: new Date() },
      select: SUMMARY,
    });
    await audit(tx, context, "key.revoked", row.id);
    return summarize(revoked);
  });
}

/**
 * Creates a key with the old one's holder, mode, label and expiry. The old key expires after the grace period, or at its own
 * expiry if that is sooner. RESOURCE_NOT_FOUND if there is none; VALIDATION_ERROR if it is revoked, expired or already
 * rotated.
 */
export function rotateKey(context: Context, input: z.output<typeof rotateInput>): Promise<RotatedKey> {
  return context.services.db.transaction(async (tx) => {
    const old = await lockKey(tx, input.id);
    if (isRevokedOrExpired(old))
      throw invalid([{ field: "id", issue: "the key is revoked or expired: issue a new one" }]);
    if (old.replacedBy)
      throw invalid([{ field: "id", issue: `the key was already replaced by ${old.replacedBy}` }]);
    const { userId, mode, label, expiresAt: end } = old;
    const issued = await insert(tx, { userId, mode, label, expiresAt: end });
    const graceEnd = Date.now() + input.graceSeconds * 1000;
    const expiresAt = new Date(Math.min(graceEnd, old.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY));
    await tx.apiKey.update({
      where: { id: old.id },
      data: { expiresAt, replacedBy: issued.id },
      select: { id: true },
    });
    await audit(tx, context, "key.rotated", old.id, { replacedBy: issued.id });
    return { ...issued, replaces: { id: old.id, expiresAt: expiresAt.toISOString() } };
  });
}

async function lockKey(tx: Transaction, id: string) {
  await tx.$queryRaw`SELECT id FROM api_keys WHERE id = ${id}::uuid FOR NO KEY UPDATE`;
  const row = await tx.apiKey.findUnique({
    where: { id },
    select: { ...SUMMARY, replacedBy: true },
  });
  if (!row) throw notFound();
  return row;
}

const isRevokedOrExpired = ({ revokedAt, expiresAt }: Pick<ApiKey, "revokedAt" | "expiresAt">) =>
  revokedAt !== null || (expiresAt !== null && expiresAt.getTime() <= Date.now());
