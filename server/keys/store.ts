import { timingSafeEqual } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { z } from "zod";
import type { ApiKey, Prisma } from "../../prisma/client/client.js";
import { audit } from "../audit.js";
import type { Context, KeyPrincipal, Services } from "../context.js";
import type { Transaction } from "../db.js";
import { invalid, notFound } from "../errors.js";
import { demandUser } from "../people/store.js";
import { parseInstant } from "../values.js";
import type { IssuedKey, issueInput, KeySummary, RotatedKey, rotateInput } from "./schema.js";
import { hash, isWellFormed, mint, PREFIX_LENGTH } from "./secret.js";

/** A new key for a user: the only time that it is shown. */
export function issueKey(context: Context, input: z.output<typeof issueInput>): Promise<IssuedKey> {
  const expiresAt = input.expiresAt ? new Date(parseInstant(input.expiresAt) ?? Number.NaN) : null;
  if (expiresAt && expiresAt.getTime() <= Date.now()) {
    throw invalid([{ field: "expiresAt", issue: "must be in the future" }]);
  }
  return context.services.db.transaction(async (tx) => {
    const { userId } = input;
    await demandUser(tx, userId, "userId");
    const issued = await insert(tx, { userId, mode: input.mode, label: input.label ?? null, expiresAt });
    await audit(tx, context, "key.issued", issued.id, { userId, mode: issued.mode });
    return issued;
  });
}

async function insert(
  tx: Transaction,
  fields: Pick<ApiKey, "userId" | "mode" | "label" | "expiresAt">,
): Promise<IssuedKey> {
  const key = mint(fields.mode);
  const row = await tx.apiKey.create({
    data: { ...fields, hash: hash(key) as Uint8Array<ArrayBuffer>, prefix: key.slice(0, PREFIX_LENGTH) },
    select: SUMMARY,
  });
  const { id, prefix, mode, expiresAt } = summarise(row);
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

const summarise = (row: Prisma.ApiKeyGetPayload<{ select: typeof SUMMARY }>): KeySummary => ({
  ...row,
  createdAt: row.createdAt.toISOString(),
  expiresAt: row.expiresAt?.toISOString() ?? null,
  revokedAt: row.revokedAt?.toISOString() ?? null,
  lastUsedAt: row.lastUsedAt?.toISOString() ?? null,
});

/** All keys, or one user's, oldest first; ended ones too. */
export async function listKeys({ services }: Context, userId: string | undefined): Promise<KeySummary[]> {
  const rows = await services.db.prisma.apiKey.findMany({
    where: userId === undefined ? {} : { userId },
    orderBy: [{ createdAt: "asc" }, { id: "asc" }],
    select: SUMMARY,
  });
  return rows.map(summarise);
}

/** Ends a key for good; one already revoked keeps its time. RESOURCE_NOT_FOUND where there is none. */
export function revokeKey(context: Context, id: string): Promise<KeySummary> {
  return context.services.db.transaction(async (tx) => {
    const row = await lockKey(tx, id);
    if (row.revokedAt) return summarise(row);
    const revoked = await tx.apiKey.update({
      where: { id: row.id },
      data: { revokedAt: new Date() },
      select: SUMMARY,
    });
    await audit(tx, context, "key.revoked", row.id);
    return summarise(revoked);
  });
}

/**
 * A new key with the old one's holder, mode, label and expiry; the old one ends after the grace period, or at its
 * own expiry where that is sooner. RESOURCE_NOT_FOUND where there is none; VALIDATION_ERROR where it has ended or was
 * rotated before.
 */
export function rotateKey(context: Context, input: z.output<typeof rotateInput>): Promise<RotatedKey> {
  return context.services.db.transaction(async (tx) => {
    const old = await lockKey(tx, input.id);
    if (hasEnded(old)) throw invalid([{ field: "id", issue: "the key has ended: issue a new one" }]);
    if (old.replacedBy)
      throw invalid([{ field: "id", issue: `the key was replaced by ${old.replacedBy} already` }]);
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

const hasEnded = ({ revokedAt, expiresAt }: Pick<ApiKey, "revokedAt" | "expiresAt">) =>
  revokedAt !== null || (expiresAt !== null && expiresAt.getTime() <= Date.now());

const USED_EVERY_MS = 60_000;

const LOOKED_UP = {
  id: true,
  userId: true,
  mode: true,
  hash: true,
  revokedAt: true,
  expiresAt: true,
  lastUsedAt: true,
} satisfies Prisma.ApiKeySelect;

type LookedUp = Prisma.ApiKeyGetPayload<{ select: typeof LOOKED_UP }>;

/** Tells whose key a text is; null where it is malformed (without a look-up), unknown, revoked or expired. */
export type Authenticator = (key: string) => Promise<KeyPrincipal | null>;

/**
 * An authenticator that looks a key up at most about once in `CACHED_MS`, however busy the key is. What it found is
 * as old as the look-up's beginning, so that a revocation holds within a second; a failed look-up is never kept, nor
 * is a key that was not found.
 */
export function keyAuthenticator(
  { db }: Pick<Services, "db">,
  onLookUp: (cached: boolean) => void = () => {},
): Authenticator {
  const found = new LRUCache<string, Promise<LookedUp | null>>({ max: MOST_CACHED, ttl: CACHED_MS });
  const lookUp = (digest: Buffer) => {
    const id = digest.toString("base64");
    const known = found.get(id);
    onLookUp(known !== undefined);
    if (known) return known;
    const start = performance.now();
    // `then` makes one promise of Prisma's lazy one, which would run anew for each that awaits it.
    const row = db.prisma.apiKey
      .findUnique({ where: { hash: digest as Uint8Array<ArrayBuffer> }, select: LOOKED_UP })
      .then((is) => is);
    found.set(id, row, { start });
    const forget = () => {
      if (found.peek(id) === row) found.delete(id);
    };
    row.then((is) => is ?? forget(), forget);
    return row;
  };
  return async (key) => {
    if (!isWellFormed(key)) return null;
    const digest = hash(key);
    const row = await lookUp(digest);
    if (!row || !timingSafeEqual(row.hash, digest) || hasEnded(row)) return null;
    recordUse(db, row);
    return { kind: "key", keyId: row.id, userId: row.userId, mode: row.mode };
  };
}

/** A second is promised; the rest is for the way to the database and back. */
const CACHED_MS = 900;
const MOST_CACHED = 10_000;

/** Keys whose use this process has recorded of late. */
const recorded = new LRUCache<string, true>({ max: MOST_CACHED, ttl: USED_EVERY_MS });

// Beside the request: a use that goes unrecorded while the database is busy is no reason to fail or to wait.
function recordUse(db: Services["db"], { id, lastUsedAt }: LookedUp): void {
  const since = new Date(Date.now() - USED_EVERY_MS);
  if (recorded.has(id) || (lastUsedAt !== null && lastUsedAt > since)) return;
  recorded.set(id, true);
  db.prisma.apiKey
    .updateMany({
      where: { id, OR: [{ lastUsedAt: null }, { lastUsedAt: { lte: since } }] },
      data: { lastUsedAt: new Date() },
    })
    .catch(() => recorded.delete(id));
}
