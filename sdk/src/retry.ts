import type { ResponseHeaders } from "./errors.js";

const INITIAL_DELAY_MS = 500;
const MAX_DELAY_MS = 8_000;

/** The longest window of the service's rate limit. */
const MAX_RETRY_AFTER_SECONDS = 86_400;

/** Parses `Retry-After`: whole seconds, or an HTTP date relative to the response's `Date`. */
export function retryAfterSeconds(headers: ResponseHeaders): number | undefined {
  const value = headers["retry-after"];
  if (!value) return undefined;
  const seconds = Math.ceil(Number(value));
  if (seconds >= 0 && seconds < Infinity) return seconds;
  const waitMs = Date.parse(value) - (Date.parse(headers.date ?? "") || Date.now());
  return waitMs >= 0 ? Math.ceil(waitMs / 1000) : undefined;
}

/**
 * Delay before a retry (counted from 1): `Retry-After` and up to a quarter more at random, so that clients do not
 * return together, or exponential backoff with full jitter. The added time is at most half of what is left until the
 * deadline after `Retry-After`. Infinite if `Retry-After` is absurd.
 */
export function retryDelayMs(retry: number, retryAfter: number | undefined, remainingMs: number): number {
  if (!retryAfter) return Math.random() * Math.min(MAX_DELAY_MS, INITIAL_DELAY_MS * 2 ** (retry - 1));
  if (retryAfter > MAX_RETRY_AFTER_SECONDS) return Number.POSITIVE_INFINITY;
  const earliestMs = retryAfter * 1000;
  return earliestMs + Math.random() * Math.max(0, Math.min(earliestMs / 4, (remainingMs - earliestMs) / 2));
}
