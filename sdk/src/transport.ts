import { ApiError, RateLimitedError } from "./api-errors.js";
import { type ApiKey, parseApiKey, resolveApiKey } from "./api-key.js";
import { Deadline } from "./deadline.js";
import {
  AbortError,
  ConnectionError,
  GuestFormsError,
  type ResponseHeaders,
  sanitizeError,
  TimeoutError,
} from "./errors.js";
import type { Log } from "./log.js";
import type { ParsedResponse } from "./promise.js";
import {
  type Expectation,
  type Failure,
  isSuccess,
  MAX_RESULT_BYTES,
  type Outcome,
  parseResponse,
  readBody,
  readHeaders,
} from "./response.js";
import { type AbortSignalLike, type Fetch, type FetchInit, type FetchOptions, isBrowser } from "./runtime.js";
import { Slots } from "./slots.js";
import { VERSION } from "./version.js";

/** Options of every call. They override the client's. */
export interface RequestOptions {
  /** Another key for this call, or a function that returns it. Empty or undefined is an error. */
  apiKey?: ApiKey;
  /**
   * Total deadline in milliseconds, including the wait for other calls, retries and the delays between them. `Infinity`: no
   * deadline.
   */
  timeout?: number | undefined;
  /** Maximum number of retries. Those after a 429 with `Retry-After` do not count; 0 excludes them, too. */
  maxRetries?: number | undefined;
  /** Aborts the call, including its retries. The call then rejects with an {@link AbortError}. */
  signal?: AbortSignalLike | undefined;
  /**
   * Additional request headers; undefined removes one of the client's. `Authorization`, `Accept` and `Content-Type`
   * cannot be changed.
   */
  headers?: Record<string, string | undefined> | undefined;
  /** Additional options for `fetch`, merged with the client's. */
  fetchOptions?: FetchOptions | undefined;
}

export interface TransportOptions {
  apiKey: ApiKey;
  baseUrl: string;
  /** Undefined: `DEFAULT_TIMEOUT_MS`, without the time that a call waits for other calls or for the rate limit. */
  timeout?: number | undefined;
  maxRetries: number;
  maxConcurrency: number;
  fetch: Fetch;
  fetchOptions?: FetchOptions | undefined;
  log: Log;
  headers?: Record<string, string | undefined> | undefined;
}

export interface Call extends Expectation {
  query?: Record<string, unknown> | undefined;
  body?: unknown;
  idempotencyKey?: string | undefined;
}

const DEFAULT_TIMEOUT_MS = 60_000;
const NOT_SENT = "not sent, because other calls of this client did not end";

const MAX_ERROR_BYTES = 256_000;

const INITIAL_DELAY_MS = 500;
const MAX_DELAY_MS = 8_000;
/** The longest window of the service's rate limit. */
const MAX_RETRY_AFTER_SECONDS = 86_400;

/** Sends calls. Its private field hides the key from JSON and consoles. */
export class Transport {
  readonly #defaults: TransportOptions;
  readonly #slots: Slots;

  constructor(options: TransportOptions) {
    const { timeout, maxRetries, maxConcurrency } = options;
    checkTimeoutAndRetries(timeout, maxRetries);
    if (!(maxConcurrency >= 1)) throw new GuestFormsError("maxConcurrency must be a number, 1 or greater");
    mergeHeaders(options.headers);
    this.#defaults = options;
    this.#slots = new Slots(Math.floor(maxConcurrency));
  }

  async send(call: Call, options: RequestOptions = {}): Promise<ParsedResponse<unknown>> {
    const timeout = options.timeout ?? this.#defaults.timeout;
    const maxRetries = options.maxRetries ?? this.#defaults.maxRetries;
    checkTimeoutAndRetries(timeout, maxRetries);
    const { url, apiKey, init } = this.#prepare(call, options);
    const { log, baseUrl } = this.#defaults;
    const label = `${call.method} ${call.path}`;
    const deadline = new Deadline(timeout ?? Number.POSITIVE_INFINITY, options.signal);
    /** Starts and stops the clock of the default timeout, which does not count waiting. */
    const setDefaultTimeout = (ms: number) => {
      if (timeout === undefined) deadline.restart(ms);
    };
    let attempt = 1;
    let retries = 0;
    let lastFailure: Failure | undefined;
    let hasSlot = false;
    try {
      await this.#slots.acquire(deadline);
      hasSlot = true;
      setDefaultTimeout(DEFAULT_TIMEOUT_MS);
      for (; ; attempt++) {
        deadline.throwIfAborted();
        const key = typeof apiKey === "function" ? await deadline.race(resolveApiKey(apiKey)) : parseApiKey(apiKey);
        const outcome = await this.#attempt(call, url, init, key, attempt, deadline);
        if ("response" in outcome) return outcome.response;
        lastFailure = outcome;
        const { error, retryable } = outcome;
        const retryAfter = error instanceof ApiError ? error.retryAfter : undefined;
        // Another call of the key may use up the rate limit first, any number of times: this is no failed attempt.
        const isRateLimited = error instanceof RateLimitedError && Boolean(retryAfter);
        if (isRateLimited) setDefaultTimeout(Number.POSITIVE_INFINITY);
        else retries++;
        const isLast = isRateLimited ? maxRetries === 0 : retries > maxRetries;
        const remainingMs = deadline.remainingMs();
        const delay = retryDelayMs(retries, retryAfter, remainingMs);
        if (!retryable || isLast || delay >= remainingMs) throw error;
        const { name, status } = error;
        log.write("warn", `retrying ${label}`, { attempt, delay: Math.round(delay), error: name, status });
        await deadline.sleep(delay);
        if (isRateLimited) setDefaultTimeout(DEFAULT_TIMEOUT_MS);
      }
    } catch (thrown) {
      const error = deadline.expired
        ? new TimeoutError(
            `${call.method} ${baseUrl}${call.path}: ${hasSlot ? "no response" : NOT_SENT} within ${timeout ?? DEFAULT_TIMEOUT_MS} ms`,
            { cause: lastFailure?.error },
          )
        : (thrown as GuestFormsError);
      if (!deadline.expired && deadline.signal.aborted)
        throw new AbortError(`${label}: aborted by the signal`, { cause: options.signal?.reason });
      const { name, status, correlationId } = error;
      if (deadline.expired || lastFailure?.retryable)
        log.write("error", `${label} failed`, { attempt, error: name, status, correlationId });
      throw error;
    } finally {
      deadline.close();
      if (hasSlot) this.#slots.release();
    }
  }

  #prepare(call: Call, options: RequestOptions) {
    const defaults = this.#defaults;
    const body = call.body === undefined ? null : JSON.stringify(call.body);
    const headers = mergeHeaders(
      {
        [isBrowser() ? "x-guest-forms-client" : "user-agent"]: `guest-forms-sdk/${VERSION}`,
        "idempotency-key": call.idempotencyKey,
      },
      defaults.headers,
      options.headers,
      { accept: "application/json", "content-type": body === null ? undefined : "application/json" },
    );
    const init: Omit<FetchInit, "signal"> = {
      ...defaults.fetchOptions,
      ...options.fetchOptions,
      method: call.method,
      headers,
      body,
      // Do not send the key to a redirect target. Not "error", which some worker runtimes lack.
      redirect: "manual",
    };
    const apiKey = "apiKey" in options ? options.apiKey : defaults.apiKey;
    return { url: defaults.baseUrl + call.path + buildQuery(call.query), apiKey, init };
  }

  /** Sends one request. Throws only if the deadline passed or the caller aborted. */
  async #attempt(
    call: Call,
    url: string,
    init: Omit<FetchInit, "signal">,
    key: string,
    attempt: number,
    deadline: Deadline,
  ): Promise<Outcome> {
    const { method, path } = call;
    const { baseUrl, fetch, log } = this.#defaults;
    const started = Date.now();
    let status: number | undefined;
    let headers: ResponseHeaders | undefined;
    try {
      const response = await deadline.race(
        fetch(url, {
          ...init,
          headers: { ...init.headers, authorization: `Bearer ${key}` },
          signal: deadline.signal as FetchInit["signal"],
        }),
      );
      status = response.status;
      headers = readHeaders(response.headers, key);
      const maxBytes = isSuccess(status) ? MAX_RESULT_BYTES : MAX_ERROR_BYTES;
      const body = await deadline.race(readBody(response, maxBytes, deadline.signal));
      return parseResponse(call, baseUrl, status, headers, body, key);
    } catch (error) {
      deadline.throwIfAborted();
      const cause = sanitizeError(error, key);
      const message = `${method} ${baseUrl}${path}: no complete response (${describeRootCause(cause)})`;
      return { error: new ConnectionError(message, { status, headers, cause }), retryable: true };
    } finally {
      log.write("debug", `${method} ${path}`, {
        method,
        path,
        status,
        ms: Date.now() - started,
        attempt,
        correlationId: headers?.["x-correlation-id"]?.slice(0, 100),
      });
    }
  }
}

/** Omits undefined parameters. The service validates the rest. */
function buildQuery(query: Record<string, unknown> = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined);
  if (!pairs.length) return "";
  return `?${pairs.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&")}`;
}

function checkTimeoutAndRetries(timeout: number | undefined, maxRetries: number): void {
  if (timeout !== undefined && !(timeout > 0))
    throw new GuestFormsError("timeout must be a number of milliseconds greater than 0");
  if (!(Number.isInteger(maxRetries) && maxRetries >= 0)) {
    throw new GuestFormsError("maxRetries must be an integer, 0 or greater");
  }
}

/** Returns the code or message of the innermost cause, such as "ECONNREFUSED". */
function describeRootCause(error: Error & { code?: string }): string {
  return error.cause instanceof Error ? describeRootCause(error.cause) : error.code || error.message || error.name;
}

/** Merges headers by lower-case name; the last one wins. Validates them, because errors of `fetch` quote invalid values. */
export function mergeHeaders(...layers: (Record<string, string | undefined> | undefined)[]): Record<string, string> {
  const merged = new Map<string, string>();
  for (const [name, value] of layers.flatMap((layer) => Object.entries(layer ?? {}))) {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || !/^[\t -~\x80-\xff]*$/.test(value ?? "")) {
      throw new GuestFormsError(`The header ${JSON.stringify(name)} contains characters that HTTP does not allow`);
    }
    if (value === undefined) merged.delete(name.toLowerCase());
    else merged.set(name.toLowerCase(), value);
  }
  return Object.fromEntries(merged);
}

/**
 * Delay before a retry (counted from 1): `Retry-After` and up to a quarter more at random, so that clients do not
 * return together, or exponential backoff with full jitter. The added time is at most half of what is left until the
 * deadline after `Retry-After`. Infinite if `Retry-After` is absurd.
 */
function retryDelayMs(retry: number, retryAfter: number | undefined, remainingMs: number): number {
  if (!retryAfter) return Math.random() * Math.min(MAX_DELAY_MS, INITIAL_DELAY_MS * 2 ** (retry - 1));
  if (retryAfter > MAX_RETRY_AFTER_SECONDS) return Number.POSITIVE_INFINITY;
  const earliestMs = retryAfter * 1000;
  return earliestMs + Math.random() * Math.max(0, Math.min(earliestMs / 4, (remainingMs - earliestMs) / 2));
}
