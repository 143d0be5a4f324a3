import { createHmac, randomBytes } from "node:crypto";

// Standard Webhooks (https://www.standardwebhooks.com), symmetric signatures.

const PREFIX = "whsec_";
const SECRET_BYTES = 32;

/** A new secret, as receivers configure it. */
export const newSecret = () => PREFIX + randomBytes(SECRET_BYTES).toString("base64");

/** Signs a body: one signature per secret, separated by spaces. `timestamp` is in seconds since 1970. */
export const sign = (secrets: readonly string[], id: string, timestamp: number, body: string): string =>
  secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(PREFIX.length), "base64");
      return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
    })
    .join(" ");
