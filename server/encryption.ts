import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from "node:crypto";

/**
 * Keys for one purpose, newest first. The first signs and encrypts; all verify and decrypt. They are KeyObjects because Node
 * 24 takes 18 µs to convert a Buffer on each use, and because a KeyObject is never printed with its bytes.
 */
export type Keys = readonly [KeyObject, ...KeyObject[]];

/** The keys derived from the root secrets by HKDF-SHA-256, 32 bytes each. */
export interface Keyring {
  /** Ids of the secrets, for people and to tell by which one data was made. They reveal nothing about the secrets. */
  ids: readonly [string, ...string[]];
  cursor: Keys;
  fingerprint: Keys;
  email: Keys;
  erasure: Keys;
  webhook: Keys;
}

type Purpose = Exclude<keyof Keyring, "ids"> | "check" | "session" | "cookie";

/** Derives the key of a root secret for one purpose. */
export const deriveKey = (secret: string, purpose: Purpose): KeyObject =>
  createSecretKey(Buffer.from(hkdfSync("sha256", secret, "guest-forms", purpose, 32)));

/** The value by which a database recognizes a secret, in hex. */
export const checkValue = (secret: string): string => deriveKey(secret, "check").export().toString("hex");

const ID_LENGTH = 8;

/** The id of the secret with this check value. */
export const secretId = (check: string): string => check.slice(0, ID_LENGTH);

export const APP_SECRETS_MISSING =
  "APP_SECRETS is not set: set it to a secret, the same on all processes, such as one made by `openssl rand -base64 48`";

const CANNOT_DECRYPT =
  "No secret in APP_SECRETS can decrypt this value: list the secret that it was encrypted with behind the newest one, and restart all processes.";

/** The configured APP_SECRETS do not match this database. */
export class SecretsRejected extends Error {
  override readonly name = "SecretsRejected";
}

/** Derives the keys of the secrets, newest first. Throws if there is none. */
export function deriveKeyring([newest, ...others]: readonly string[] = []): Keyring {
  if (newest === undefined) throw new Error(`${APP_SECRETS_MISSING}.`);
  const ofEach = <Value>(value: (secret: string) => Value): readonly [Value, ...Value[]] => [
    value(newest),
    ...others.map(value),
  ];
  const derive = (purpose: Purpose): Keys => ofEach((secret) => deriveKey(secret, purpose));
  return {
    ids: ofEach((secret) => secretId(checkValue(secret))),
    cursor: derive("cursor"),
    fingerprint: derive("fingerprint"),
    email: derive("email"),
    erasure: derive("erasure"),
    webhook: derive("webhook"),
  };
}

const VERSION = 1;
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** Encrypts with AES-256-GCM and a random 96-bit IV, bound to a row's id. Format: version, IV, tag, ciphertext. */
export function seal(keys: Keys, text: string, boundTo: string): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv("aes-256-gcm", keys[0], iv).setAAD(Buffer.from(boundTo));
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([Buffer.of(VERSION), iv, cipher.getAuthTag(), sealed]);
}

/** Decrypts the result of `seal` with whichever key fits. Throws if none does. */
export const open = (keys: Keys, sealed: Uint8Array, boundTo: string): string => {
  const opened = tryOpen(keys, sealed, boundTo);
  if (!opened) throw new Error(CANNOT_DECRYPT);
  return opened.text;
};

/** As `open`, with the position of the key that fits; undefined if none does. */
export function tryOpen(
  keys: Keys,
  sealed: Uint8Array,
  boundTo: string,
): { text: string; position: number } | undefined {
  const box = Buffer.from(sealed);
  const iv = box.subarray(1, 1 + IV_BYTES);
  const tag = box.subarray(1 + IV_BYTES, 1 + IV_BYTES + TAG_BYTES);
  for (const [position, key] of keys.entries()) {
    try {
      const decipher = createDecipheriv("aes-256-gcm", key, iv, { authTagLength: TAG_BYTES });
      decipher.setAAD(Buffer.from(boundTo)).setAuthTag(tag);
      const opened = decipher.update(box.subarray(1 + IV_BYTES + TAG_BYTES));
      return { text: Buffer.concat([opened, decipher.final()]).toString("utf8"), position };
    } catch {
      // Try the next key.
    }
  }
  return undefined;
}
