import { type ApiKey, parseApiKey, resolveApiKey } from "./api-key.js";
import { readBody } from "./body.js";
import { Deadline } from "./deadline.js";
import {
  AbortError,
  ApiError,
  ConnectionError,
  errorClassFor,
  type FieldError,
  GuestFormsError,
  RateLimitedError,
  type ResponseHeaders,
  redact,
  sanitizeError,
  TimeoutError,
  truncate,
} from "./errors.js";
import type { Log } from "./log.js";
import type { ParsedResponse } from "./promise.js";
import { retryAfterSeconds, retryDelayMs } from "./retry.js";
import { type AbortSignalLike, type Fetch, type FetchInit, type FetchOptions, isBrowser, runtime } from "./runtime.js";
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

export interface Call {
  method: string;
  path: string;
  query?: Record<string, unknown> | undefined;
  body?: unknown;
  idempotencyKey?: string | undefined;
  /** Whether `json`, undefined if the body is not valid JSON, is a result of this operation. */
  isExpected(json: unknown, status: number): boolean;
}

const DEFAULT_TIMEOUT_MS = 60_000;

/** A page of 100 items has less than 1 MB. */
const MAX_RESULT_BYTES = 10_000_000;
const MAX_ERROR_BYTES = 256_000;

type Failure = { error: GuestFormsError; retryable: boolean };
type Outcome = { response: ParsedResponse<unknown> } | Failure;

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
    const defaults = this.#defaults;
    const timeout = options.timeout ?? defaults.timeout;
    const maxRetries = options.maxRetries ?? defaults.maxRetries;
    checkTimeoutAndRetries(timeout, maxRetries);
    const apiKey = "apiKey" in options ? options.apiKey : defaults.apiKey;
    const label = `${call.method} ${call.path}`;
    const target = `${call.method} ${defaults.baseUrl}${call.path}`;
    const url = defaults.baseUrl + call.path + buildQuery(call.query);
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
        // Do not send the key to a redirect target. Not `redirect: "error"`, which some worker runtimes lack.
        const init: FetchInit = {
          ...defaults.fetchOptions,
          ...options.fetchOptions,
          method: call.method,
          headers: { ...headers, authorization: `Bearer ${key}` },
          body,
          redirect: "manual",
          signal: deadline.signal as FetchInit["signal"],
        };
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
        defaults.log.write("warn", `retrying ${label}`, {
          attempt,
          delay: Math.round(delay),
          error: error.name,
          status: error.status,
        });
        await deadline.sleep(delay);
        if (isRateLimited) setDefaultTimeout(DEFAULT_TIMEOUT_MS);
      }
    } catch (thrown) {
      let error = thrown as GuestFormsError;
      if (deadline.expired) {
        const problem = hasSlot ? "no response" : "not sent, because other calls of this client did not end";
        error = new TimeoutError(`${target}: ${problem} within ${timeout ?? DEFAULT_TIMEOUT_MS} ms`, {
          cause: lastFailure?.error,
        });
      } else if (deadline.signal.aborted) {
        throw new AbortError(`${label}: aborted by the signal`, { cause: options.signal?.reason });
      }
      if (deadline.expired || lastFailure?.retryable) {
        const { name, status, correlationId } = error;
        defaults.log.write("error", `${label} failed`, { attempt, error: name, status, correlationId });
      }
      throw error;
    } finally {
      deadline.close();
      if (hasSlot) this.#slots.release();
    }
  }

  /** Sends one request. Throws only if the deadline passed or the caller aborted. */
  async #attempt(
    call: Call,
    url: string,
    init: FetchInit,
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
      const response = await deadline.race(fetch(url, init));
      status = response.status;
      headers = readHeaders(response.headers, key);
      const maxBytes = isSuccess(status) ? MAX_RESULT_BYTES : MAX_ERROR_BYTES;
      const body = await deadline.race(readBody(response, maxBytes, deadline.signal));
      return parseResponse(call, baseUrl, status, headers, body, key);
    } catch (error) {
      deadline.throwIfAborted();
      const cause = sanitizeError(error, key);
      const message = `${method} ${baseUrl}${path}: no complete response (${describeRootCause(cause)})`;
      return {
        error: new ConnectionError(message, { status, headers, cause }),
        retryable: true,
      };
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

/** Turns a response into a result or an error. */
function parseResponse(
  call: Call,
  baseUrl: string,
  status: number,
  headers: ResponseHeaders,
  { text, isWhole }: { text: string; isWhole: boolean },
  key: string,
): Outcome {
  const ok = isSuccess(status);
  const json = isWhole ? parseJson(ok ? text : redact(text, key)) : undefined;
  if (ok && call.isExpected(json, status)) {
    const replayed = headers["idempotent-replayed"] === "true";
    return { response: { result: { data: json, response: { status, headers }, replayed }, text } };
  }
  const target = baseUrl + call.path;
  const details = {
    status,
    headers,
    retryAfter: retryAfterSeconds(headers),
  };
  const retryable = status === 429 || status >= 500;
  if (!ok && isObject(json) && typeof json.code === "string" && typeof json.message === "string") {
    const { code, message, correlationId } = json;
    const errors = Array.isArray(json.errors) ? json.errors.filter(isFieldError) : [];
    const label = `${call.method} ${new runtime.URL(target).pathname}: ${status}`;
    const error = new (errorClassFor(code))(`${label} ${truncate(summarize(errors) || message, 500)}`, {
      ...details,
      code,
      correlationId: typeof correlationId === "string" ? correlationId : undefined,
      errors,
    });
    return { error, retryable };
  }
  const type = truncate(headers["content-type"] ?? "no content type", 100);
  // In browsers, a redirect that was not followed has status 0.
  const problem =
    status === 0 || (status >= 300 && status < 400)
      ? "a redirect. Redirects are not followed, to protect the key: check baseUrl"
      : ok && !isWhole
        ? `more than ${MAX_RESULT_BYTES / 1e6} MB, which no response of this service has: check baseUrl`
        : `not a response of this service (${type}): ${excerpt(redact(text, key))}`;
  const error = new ApiError(`${call.method} ${target}: ${status}, ${problem}`, details);
  // Invalid JSON in a 2xx is a body that was cut off without Content-Length: retry it like any other cut-off body.
  return { error, retryable: retryable || (ok && isWhole && json === undefined && type.includes("json")) };
}

const isSuccess = (status: number) => status >= 200 && status < 300;

const isFieldError = (entry: unknown): entry is FieldError =>
  isObject(entry) && typeof entry.field === "string" && typeof entry.issue === "string";

/** Names the first three rejected fields. */
function summarize(errors: FieldError[]): string {
  const first = errors.slice(0, 3).map(({ field, issue }) => `${field}: ${issue}`);
  if (errors.length > 3) first.push(`and ${errors.length - 3} more`);
  return first.join("; ");
}

/** The beginning of a response body, without HTML tags. */
const excerpt = (page: string): string =>
  truncate(page.slice(0, 5_000).replace(/<(style|script)\b.*?<\/\1>|<[^>]*>/gis, " "), 200) || "an empty body";

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns undefined for invalid JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function readHeaders(source: { forEach(visit: (value: string, name: string) => void): void }, key: string) {
  const entries: [string, string][] = [];
  source.forEach((value, name) => {
    entries.push([name.toLowerCase(), redact(value, key)]);
  });
  return Object.fromEntries(entries);
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
