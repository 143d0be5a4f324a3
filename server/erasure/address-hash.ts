import { createHmac, type KeyObject } from "node:crypto";

const VERSION = 1;
const KEY_ID_BYTES = 8;
const HMAC_BYTES = 32;
const BYTES = 1 + KEY_ID_BYTES + HMAC_BYTES;

const hmac = (key: KeyObject, text: string) => createHmac("sha256", key).update(text).digest();

const head = (key: KeyObject) => Buffer.concat([Buffer.of(VERSION), hmac(key, "").subarray(0, KEY_ID_BYTES)]);

/**
 * Returns the hash of an address under one key, ignoring case. Format, in base64url: version, id of the key, HMAC-SHA-256.
 */
export const hashAddress = (key: KeyObject, address: string): string =>
  Buffer.concat([head(key), hmac(key, address.toLowerCase())]).toString("base64url");

/** Whether this is a hash in the format of `hashAddress`. */
export function isAddressHash(text: string): boolean {
  const bytes = Buffer.from(text, "base64url");
  return bytes.length === BYTES && bytes[0] === VERSION && bytes.toString("base64url") === text;
}

/** Whether `hashAddress` made this hash with this key. */
export const isMadeWith = (key: KeyObject, hash: string): boolean =>
  Buffer.from(hash, "base64url")
    .subarray(0, 1 + KEY_ID_BYTES)
    .equals(head(key));
