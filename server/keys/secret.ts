import * as crypto from "node:crypto";
import { crc32 } from "node:zlib";
import { customAlphabet } from "nanoid";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const random = customAlphabet(BASE62, 43);
const SHAPE = /^grf_(?:rw|ro)_[0-9A-Za-z]{43}[0-9A-Za-z]{6}$/;
const CHECKSUM_LENGTH = 6;

/** How much of a key is kept in the clear, for people to tell keys apart. */
export const PREFIX_LENGTH = 12;

/** A new key: `grf_rw_` or `grf_ro_`, 43 random base62 characters, 6 of checksum. */
export function mint(mode: "READ_WRITE" | "READ_ONLY"): string {
  const body = `grf_${mode === "READ_WRITE" ? "rw" : "ro"}_${random()}`;
  return body + checksum(body);
}

/** Whether the text can be a key at all, so that a mistyped one costs no look-up. */
export function isWellFormed(key: string): boolean {
  return SHAPE.test(key) && checksum(key.slice(0, -CHECKSUM_LENGTH)) === key.slice(-CHECKSUM_LENGTH);
}

/** SHA-256: enough for a secret of 256 random bits, and all that is stored. */
export const hash = (key: string): Buffer => crypto.hash("sha256", key, "buffer");

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = "";
  for (let place = 0; place < CHECKSUM_LENGTH; place++) {
    digits = BASE62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}
