import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import type { Db } from "./db.js";

/** Keys of one purpose, newest first: the first signs and seals, all of them recognise. */
export type Keys = readonly [Buffer, ...Buffer[]];

/** The keys derived from the root secrets by HKDF-SHA-256, 32 bytes each. */
export interface Keyring {
  cursor: Keys;
  fingerprint: Keys;
  email: Keys;
}

/** The key that a root secret yields for one purpose. */
export const deriveKey = (secret: string, purpose: keyof Keyring | "check"): Buffer =>
  Buffer.from(hkdfSync("sha256", secret, "guest-forms", purpose, 32));

export function deriveKeyring(secrets: readonly string[]): Keyring {
  const derive = (purpose: keyof Keyring): Keys => {
    const [first, ...rest] = secrets.map((secret) => deriveKey(secret, purpose));
    if (!first) throw new Error("There is no application secret: set APP_SECRETS or run migrate.");
    return [first, ...rest];
  };
  return { cursor: derive("cursor"), fingerprint: derive("fingerprint"), email: derive("email") };
}

/** Prisma's code for a table that does not exist. */
const MISSING_TABLE = "P2021";

/**
 * The configured secrets, newest first, and behind them those that `migrate` stored in the database while none were
 * configured: what was sealed with them must still open.
 */
export async function loadKeyring(configured: readonly string[], db: Db): Promise<Keyring> {
  const stored = await db.prisma.storedSecret.findMany({ orderBy: { id: "desc" } }).catch((error) => {
    // Not migrated yet: nothing can be stored.
    if (configured.length > 0 && (error as { code?: string }).code === MISSING_TABLE) return [];
    throw error;
  });
  return deriveKeyring([...configured, ...stored.map(({ secret }) => secret)]);
}

const VERSION = 1;
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** AES-256-GCM with a random 96-bit IV, bound to the row it belongs to: version, IV, tag, ciphertext. */
export function seal(keys: Keys, text: string, boundTo: string): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv("aes-256-gcm", keys[0], iv).setAAD(Buffer.from(boundTo));
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([Buffer.of(VERSION), iv, cipher.getAuthTag(), sealed]);
}

/** Opens what `seal` made with any of the keys; throws where none fits. */
export function open(keys: Keys, sealed: Uint8Array, boundTo: string): string {
  const box = Buffer.from(sealed);
  const iv = box.subarray(1, 1 + IV_BYTES);
  const tag = box.subarray(1 + IV_BYTES, 1 + IV_BYTES + TAG_BYTES);
  for (const key of keys) {
    const decipher = createDecipheriv("aes-256-gcm", key, iv, { authTagLength: TAG_BYTES });
    decipher.setAAD(Buffer.from(boundTo)).setAuthTag(tag);
    try {
      const opened = decipher.update(box.subarray(1 + IV_BYTES + TAG_BYTES));
      return Buffer.concat([opened, decipher.final()]).toString("utf8");
    } catch {
      // Sealed with another of the keys.
    }
  }
  throw new Error("None of the application's secrets opens this value.");
}
