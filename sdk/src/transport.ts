import { type ApiKey, checkApiKey, readApiKey } from "./api-key.js";
import { Deadline } from "./deadline.js";
import {
  AbortError,
  ApiError,
  ConnectionError,
  clip,
  copyError,
  errorClass,
  type FieldError,
  GuestFormsError,
  type ResponseHeaders,
  redact,
  TimeoutError,
} from "./errors.js";
import type { Log } from "./log.js";
import type { Answer } from "./promise.js";
import { delayAfter, retryAfterSeconds } from "./retry.js";
import { type AbortSignalLike, type Fetch, type FetchInit, type FetchOptions, inBrowser } from "./runtime.js";
import { VERSION } from "./version.js";

/** Options that every call takes; each takes precedence over the client's own. */
export interface RequestOptions {
  /** Another key for this call, or a function that gives it. Refused if empty or undefined. */
  apiKey?: ApiKey;
  /** Total deadline in milliseconds, over all tries and the waits between them. `Infinity` for none. */
  timeout?: number | undefined;
  /** How often a failed request is retried at most. */
  maxRetries?: number | undefined;
  /** Aborts the call, waits between tries included; the call then rejects with an {@link AbortError}. */
  signal?: AbortSignalLike | undefined;
  /**
   * More request headers; undefined removes one of the client's. `Authorization`, `Accept` and `Content-Type` are
   * the SDK's.
   */
  headers?: Record<string, string | undefined> | undefined;
  /** More options for `fetch`, added to the client's. */
  fetchOptions?: FetchOptions | undefined;
}

export interface Settings {
  apiKey: ApiKey;
  baseUrl: string;
  timeout: number;
  maxRetries: number;
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
  /** Whether the JSON of a success, undefined if it is none, is what the operation responds with. */
  accepts(json: unknown, status: number): boolean;
}

type Outcome = { answer: Answer<unknown> } | { error: GuestFormsError; retry: boolean };

/** Sends calls: headers, deadline, retries, errors and the log. Holds the key where neither JSON nor inspection sees it. */
export class Transport {
  readonly #settings: Settings;

  constructor(settings: Settings) {
    checkTimes(settings.timeout, settings.maxRetries);
    mergeHeaders(settings.headers);
    this.#settings = settings;
  }

  async send(call: Call, options: RequestOptions = {}): Promise<Answer<unknown>> {
    const settings = this.#settings;
    const timeout = options.timeout ?? settings.timeout;
    const maxRetries = options.maxRetries ?? settings.maxRetries;
    checkTimes(timeout, maxRetries);
    const apiKey = "apiKey" in options ? options.apiKey : settings.apiKey;
    const label = `${call.method} ${call.path}`;
    const url = settings.baseUrl + call.path + queryString(call.query);
    const body = call.body === undefined ? null : JSON.stringify(call.body);
    const headers = mergeHeaders(
      {
        [inBrowser() ? "x-guest-forms-client" : "user-agent"]: `guest-forms-sdk/${VERSION}`,
        "idempotency-key": call.idempotencyKey,
      },
      settings.headers,
      options.headers,
      { accept: "application/json", "content-type": body === null ? undefined : "application/json" },
    );

    const deadline = new Deadline(timeout, options.signal);
    let attempt = 1;
    let last: { error: GuestFormsError; retry: boolean } | undefined;
    try {
      for (; ; attempt++) {
        deadline.throwIfStopped();
        const key =
          typeof apiKey === "function" ? await deadline.race(readApiKey(apiKey)) : checkApiKey(apiKey);
        // A redirect followed would carry the key to wherever it points ("error" is unknown to some workers' fetch).
        const init: FetchInit = {
          ...settings.fetchOptions,
          ...options.fetchOptions,
          method: call.method,
          headers: { ...headers, authorization: `Bearer ${key}` },
          body,
          redirect: "manual",
          signal: deadline.signal as FetchInit["signal"],
        };
        const outcome = await this.#try(call, url, init, key, attempt, deadline);
        if ("answer" in outcome) return outcome.answer;
        last = outcome;
        const { error, retry } = outcome;
        const delay = delayAfter(attempt, error instanceof ApiError ? error.retryAfter : undefined);
        if (!retry || attempt > maxRetries || delay >= deadline.left()) throw error;
        settings.log.write("warn", `retrying ${label}`, {
          attempt,
          delay: Math.round(delay),
          error: error.name,
          status: error.status,
        });
        await deadline.sleep(delay);
      }
    } catch (thrown) {
      let error = thrown as GuestFormsError;
      if (deadline.expired) {
        error = new TimeoutError(`${label}: no response within ${timeout} ms`, { cause: last?.error });
      } else if (deadline.signal.aborted) {
        throw new AbortError(`${label}: aborted by the signal`, { cause: options.signal?.reason });
      }
      if (deadline.expired || last?.retry) {
        const { name, status, correlationId } = error;
        settings.log.write("error", `${label} failed`, { attempt, error: name, status, correlationId });
      }
      throw error;
    } finally {
      deadline.close();
    }
  }

  /** One try. Throws only if the deadline or the caller stopped it. */
  async #try(
    call: Call,
    url: string,
    init: FetchInit,
    key: string,
    attempt: number,
    deadline: Deadline,
  ): Promise<Outcome> {
    const { method, path } = call;
    const { fetch, log } = this.#settings;
    const started = Date.now();
    let status: number | undefined;
    let headers: ResponseHeaders | undefined;
    try {
      const response = await deadline.race(fetch(url, init));
      status = response.status;
      headers = readHeaders(response.headers, key);
      return read(call, status, headers, await deadline.race(response.text()), key);
    } catch (error) {
      deadline.throwIfStopped();
      const cause = copyError(error, key);
      const message = `${method} ${path}: no complete response (${innermost(cause)})`;
      const correlationId = headers?.["x-correlation-id"];
      return { error: new ConnectionError(message, { status, headers, correlationId, cause }), retry: true };
    } finally {
      log.write("debug", `${method} ${path}`, {
        method,
        path,
        status,
        ms: Date.now() - started,
        attempt,
        correlationId: headers?.["x-correlation-id"],
      });
    }
  }
}

/** Makes a result or an error of a response. */
function read(call: Call, status: number, headers: ResponseHeaders, text: string, key: string): Outcome {
  const ok = status >= 200 && status < 300;
  const safe = ok ? text : redact(text, key);
  const json = parse(safe);
  if (ok && call.accepts(json, status)) {
    const replayed = headers["idempotent-replayed"] === "true";
    return { answer: { result: { data: json, response: { status, headers }, replayed }, text } };
  }
  const label = `${call.method} ${call.path}: ${status}`;
  const details = {
    status,
    headers,
    correlationId: headers["x-correlation-id"],
    retryAfter: retryAfterSeconds(headers),
  };
  const retry = status === 429 || status >= 500;
  if (!ok && isObject(json) && typeof json.code === "string" && typeof json.message === "string") {
    const { code, message, correlationId } = json;
    const errors = Array.isArray(json.errors) ? json.errors.filter(isFieldError) : [];
    const error = new (errorClass(code))(`${label} ${clip(summary(errors) || message, 500)}`, {
      ...details,
      code,
      correlationId: typeof correlationId === "string" ? correlationId : details.correlationId,
      errors,
    });
    return { error, retry };
  }
  const type = headers["content-type"] ?? "no content type";
  // Browsers show a redirect that was not followed as status 0.
  const what =
    status === 0 || (status >= 300 && status < 400)
      ? "a redirect, which is not followed: the key would go with it"
      : `not a response of this service (${type}): ${snippet(redact(text, key))}`;
  const error = new ApiError(`${label}, ${what}`, details);
  // JSON that ends early is a cut body whose length nobody announced; trying again is as safe as for any other cut.
  return { error, retry: retry || (ok && json === undefined && type.includes("json")) };
}

const isFieldError = (entry: unknown): entry is FieldError =>
  isObject(entry) && typeof entry.field === "string" && typeof entry.issue === "string";

/** The first rejected fields. */
function summary(errors: FieldError[]): string {
  const first = errors.slice(0, 3).map(({ field, issue }) => `${field}: ${issue}`);
  if (errors.length > 3) first.push(`and ${errors.length - 3} more`);
  return first.join("; ");
}

/** The beginning of a page as text. */
const snippet = (page: string): string =>
  clip(page.slice(0, 5_000).replace(/<(style|script)\b.*?<\/\1>|<[^>]*>/gis, " "), 200) || "an empty body";

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The value of a JSON text, undefined for any other text. */
function parse(text: string): unknown {
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

/** Merges by lower-case name, the last counts. Checks what `fetch` would, whose errors quote the value. */
export function mergeHeaders(
  ...layers: (Record<string, string | undefined> | undefined)[]
): Record<string, string> {
  const merged = new Map<string, string>();
  for (const [name, value] of layers.flatMap((layer) => Object.entries(layer ?? {}))) {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || !/^[\t -~\x80-\xff]*$/.test(value ?? "")) {
      throw new GuestFormsError(`The header ${JSON.stringify(name)} has characters that HTTP forbids`);
    }
    if (value === undefined) merged.delete(name.toLowerCase());
    else merged.set(name.toLowerCase(), value);
  }
  return Object.fromEntries(merged);
}

/** Absent parameters are left out; all else is sent as it is, for the service to judge. */
function queryString(query: Record<string, unknown> = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined);
  if (!pairs.length) return "";
  return `?${pairs.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&")}`;
}

function checkTimes(timeout: number, maxRetries: number): void {
  if (!(timeout > 0)) throw new GuestFormsError("timeout must be a number of milliseconds above 0");
  if (!(Number.isInteger(maxRetries) && maxRetries >= 0)) {
    throw new GuestFormsError("maxRetries must be an integer of at least 0");
  }
}

/** What a chain of causes comes down to: "ECONNREFUSED", say. */
function innermost(error: Error & { code?: string }): string {
  return error.cause instanceof Error ? innermost(error.cause) : error.code || error.message || error.name;
}
