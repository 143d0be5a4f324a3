import * as crypto from "node:crypto";
import { crc32 } from "node:zlib";
import { LRUCache } from "lru-cache";
import { customAlphabet } from "nanoid";
import type { ApiKey } from "../../prisma/client/client.js";
import type { KeyPrincipal, Services } from "../access/context.js";
import type { KeyMode } from "../constants.js";
import { ON_PRIMARY } from "../database/primary.js";
import { columnsOf, type SqlRow } from "../resources/resource.js";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const random = customAlphabet(BASE62, 43);
const KEY_FORMAT = /^grf_(?:rw|ro)_[0-9A-Za-z]{43}[0-9A-Za-z]{6}$/;
const CHECKSUM_LENGTH = 6;

/** Characters of a key that are stored in clear text, so that people can tell keys apart. */
export const PREFIX_LENGTH = 12;

/** Generates a key: `grf_rw_` or `grf_ro_`, 43 random base62 characters and a checksum of 6. */
export function generateKey(mode: KeyMode): string {
  const body = `grf_${mode === "READ_WRITE" ? "rw" : "ro"}_${random()}`;
  return body + checksum(body);
}

/** Checks format and checksum, so that a mistyped key needs no database query. */
export function isWellFormed(key: string): boolean {
  return KEY_FORMAT.test(key) && checksum(key.slice(0, -CHECKSUM_LENGTH)) === key.slice(-CHECKSUM_LENGTH);
}

/** SHA-256, which is enough for a secret of 256 random bits. Only the hash is stored. */
export const hashKey = (key: string): Buffer => crypto.hash("sha256", key, "buffer");

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = "";
  for (let place = 0; place < CHECKSUM_LENGTH; place++) {
    digits = BASE62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

/** Resolves to the principal of a key; null if it is malformed (without a query), unknown, revoked or expired. */
export type Authenticator = (key: string) => Promise<KeyPrincipal | null>;

const FIELDS = ["id", "userId", "mode", "hash", "revokedAt", "lastUsedAt"] as const;
/** `remainingMs`: until the key expires, by the database's clock, because that of this process may be wrong. Null: it does not. */
type KeyRow = SqlRow<Pick<ApiKey, (typeof FIELDS)[number]>> & { remainingMs: number | null };
const SELECT = `
  SELECT ${columnsOf(FIELDS, "k")}, (1000 * extract(epoch FROM k.expires_at - clock_timestamp()))::float8 AS "remainingMs"
  FROM api_keys k
  WHERE k.hash = $1::bytea AND ${ON_PRIMARY}`;

/** A revocation must take effect within 1 second; 100 ms are left for the query. */
const CACHE_TTL_MS = 900;
const MAX_CACHED = 10_000;
const RECORD_USE_EVERY_MS = 60_000;

/** A query of a key, and when it began by the monotonic clock. */
interface LookUp {
  begunAt: number;
  row: Promise<FoundKey | undefined>;
}

/**
 * `endsAt`: until when the key is valid at most, by the monotonic clock. It is counted from the response, so no key is rejected
 * before it expires.
 */
type FoundKey = KeyRow & { endsAt: number };

const withEnd = (row: KeyRow): FoundKey => ({
  ...row,
  endsAt: row.remainingMs === null ? Number.POSITIVE_INFINITY : performance.now() + row.remainingMs,
});

/**
 * Returns an authenticator that queries each key at most about once per CACHE_TTL_MS. A request relies on a query that began
 * after the request, or less than CACHE_TTL_MS before its result is used. Failed queries and unknown keys are not cached.
 */
export function keyAuthenticator(
  { db }: Pick<Services, "db">,
  onLookUp: (cached: boolean) => void = () => {},
): Authenticator {
  const cache = new LRUCache<string, LookUp>({ max: MAX_CACHED, ttl: CACHE_TTL_MS });
  /** Keys whose use this process has recorded recently. */
  const recorded = new LRUCache<string, true>({ max: MAX_CACHED, ttl: RECORD_USE_EVERY_MS });

  const forget = (id: string, lookUp: LookUp) => {
    if (cache.peek(id) === lookUp) cache.delete(id);
  };

  const beginLookUp = (id: string, digest: Buffer): LookUp => {
    const begunAt = performance.now();
    const row = db.query<KeyRow>("key", SELECT, [digest]).then(([first]) => first && withEnd(first));
    const lookUp = { begunAt, row };
    cache.set(id, lookUp, { start: begunAt });
    row.then(
      (key) => key ?? forget(id, lookUp),
      () => forget(id, lookUp),
    );
    return lookUp;
  };

  const findRow = async (digest: Buffer): Promise<FoundKey | undefined> => {
    const id = digest.toString("base64");
    const cached = cache.get(id);
    onLookUp(cached !== undefined);
    if (!cached) return beginLookUp(id, digest).row;
    const row = await cached.row;
    if (performance.now() - cached.begunAt < CACHE_TTL_MS) return row;
    // The query was slow. A look-up that is cached now has begun after this request.
    forget(id, cached);
    return (cache.get(id) ?? beginLookUp(id, digest)).row;
  };

  // Not awaited: recording must not delay the request or make it fail.
  const recordUse = ({ id, lastUsedAt }: KeyRow) => {
    const since = new Date(Date.now() - RECORD_USE_EVERY_MS);
    if (recorded.has(id) || (lastUsedAt !== null && Date.parse(lastUsedAt) > since.getTime())) return;
    recorded.set(id, true);
    db.prisma.apiKey
      .updateMany({
        where: { id, OR: [{ lastUsedAt: null }, { lastUsedAt: { lte: since } }] },
        data: { lastUsedAt: new Date() },
      })
      .catch(() => recorded.delete(id));
  };

  return async (key) => {
    if (!isWellFormed(key)) return null;
    const digest = hashKey(key);
    const row = await findRow(digest);
    if (!row || !crypto.timingSafeEqual(row.hash, digest)) return null;
    if (row.revokedAt !== null || row.endsAt <= performance.now()) return null;
    recordUse(row);
    return { kind: "key", keyId: row.id, userId: row.userId, mode: row.mode };
  };
}
