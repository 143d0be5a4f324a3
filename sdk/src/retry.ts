import type { ResponseHeaders } from "./errors.js";

const FIRST_MS = 500;
const MAX_MS = 8_000;

/** Seconds to wait by `Retry-After`, in seconds or as an HTTP date (counted from the answer's own `Date`). */
export function retryAfterSeconds(headers: ResponseHeaders): number | undefined {
  const value = headers["retry-after"];
  if (!value) return undefined;
  const seconds = Number(value);
  if (seconds >= 0) return seconds;
  const until = Date.parse(value) - (Date.parse(headers.date ?? "") || Date.now());
  return until >= 0 ? Math.ceil(until / 1000) : undefined;
}

/** Milliseconds before try `attempt + 1`: what the service asks for, else exponential backoff with full jitter. */
export const delayAfter = (attempt: number, retryAfter: number | undefined): number =>
  retryAfter ? retryAfter * 1000 : Math.random() * Math.min(MAX_MS, FIRST_MS * 2 ** (attempt - 1));
