import { Deadline } from "./deadline.js";
import {
  ApiError,
  ConnectionError,
  copyError,
  errorClass,
  type FieldError,
  GuestFormsError,
  type ResponseHeaders,
  redact,
  TimeoutError,
} from "./errors.js";
import type { WithResponse } from "./promise.js";
import { delayAfter, retryAfterSeconds } from "./retry.js";
import { type AbortSignalLike, type Fetch, type FetchInit, inBrowser } from "./runtime.js";
import { VERSION } from "./version.js";

/** Where the SDK writes its log lines; `console` fits. */
export interface Logger {
  /** One line for each request sent: method, path, status, ms, attempt, correlationId. */
  debug(message: string, fields: Record<string, unknown>): void;
  /** One line for each retry: the error's name, and the delay in milliseconds. */
  warn?(message: string, fields: Record<string, unknown>): void;
}

/** Options that every call takes; each outweighs the client's own. */
export interface RequestOptions {
  /** Total deadline in milliseconds, over all tries and the waits between them. `Infinity` for none. */
  timeout?: number | undefined;
  /** How often a failed request is tried again at most. */
  maxRetries?: number | undefined;
  /** Aborts the call, waits between tries included; the call then rejects with the signal's `reason`, as `fetch` does. */
  signal?: AbortSignalLike | undefined;
  /**
   * More request headers; undefined takes back one of the client's. `Authorization`, `Accept` and `Content-Type` are
   * the SDK's.
   */
  headers?: Record<string, string | undefined> | undefined;
}

export interface Settings {
  apiKey: string;
  baseUrl: string;
  timeout: number;
  maxRetries: number;
  fetch: Fetch;
  logger: Logger | undefined;
  headers: Record<string, string | undefined> | undefined;
}

export interface Call {
  method: "GET" | "POST" | "PUT";
  path: string;
  query?: Record<string, unknown>;
  body?: unknown;
  idempotencyKey?: string;
  /** Whether a parsed success body is what the operation answers with. */
  accepts(body: Record<string, unknown>): boolean;
}

type Outcome = { answer: WithResponse<unknown> } | { error: GuestFormsError; retry: boolean };

/** Sends calls: headers, deadline, retries, errors and the log. Holds the key where neither JSON nor inspection sees it. */
export class Transport {
  readonly #settings: Settings;

  constructor(settings: Settings) {
    checkTimes(settings.timeout, settings.maxRetries);
    mergeHeaders(settings.headers);
    this.#settings = settings;
  }

  async send(call: Call, options: RequestOptions = {}): Promise<WithResponse<unknown>> {
    const settings = this.#settings;
    const timeout = options.timeout ?? settings.timeout;
    const maxRetries = options.maxRetries ?? settings.maxRetries;
    checkTimes(timeout, maxRetries);
    const url = settings.baseUrl + call.path + queryString(call.query);
    const body = call.body === undefined ? null : JSON.stringify(call.body);
    const headers = mergeHeaders(
      {
        [inBrowser() ? "x-guest-forms-client" : "user-agent"]: `guest-forms-sdk/${VERSION}`,
        "idempotency-key": call.idempotencyKey,
      },
      settings.headers,
      options.headers,
      {
        accept: "application/json",
        authorization: `Bearer ${settings.apiKey}`,
        "content-type": body === null ? undefined : "application/json",
      },
    );

    const deadline = new Deadline(timeout, options.signal);
    // A redirect followed would carry the key to wherever it points ("error" is unknown to some workers' fetch).
    const init: FetchInit = {
      method: call.method,
      headers,
      body,
      redirect: "manual",
      signal: deadline.signal as FetchInit["signal"],
    };
    let failed: GuestFormsError | undefined;
    try {
      for (let attempt = 1; ; attempt++) {
        const outcome = await this.#try(call, url, init, attempt, deadline);
        if ("answer" in outcome) return outcome.answer;
        failed = outcome.error;
        const retryAfter = failed instanceof ApiError ? failed.retryAfter : undefined;
        const delay = delayAfter(attempt, retryAfter);
        if (!outcome.retry || attempt > maxRetries || delay >= deadline.left()) throw failed;
        this.#log("warn", `retrying ${call.method} ${call.path}`, {
          attempt,
          delay: Math.round(delay),
          error: failed.name,
          status: failed.status,
        });
        await deadline.sleep(delay);
      }
    } catch (error) {
      if (!deadline.expired) throw error;
      throw new TimeoutError(`${call.method} ${call.path}: no answer within ${timeout} ms`, {
        cause: failed,
      });
    } finally {
      deadline.close();
    }
  }

  /** One try. Throws only where the deadline or the caller stopped it. */
  async #try(
    call: Call,
    url: string,
    init: FetchInit,
    attempt: number,
    deadline: Deadline,
  ): Promise<Outcome> {
    const { apiKey, fetch } = this.#settings;
    const started = Date.now();
    let status: number | undefined;
    let headers: ResponseHeaders | undefined;
    try {
      if (deadline.signal.aborted) throw deadline.signal.reason;
      const response = await deadline.race(fetch(url, init));
      status = response.status;
      headers = readHeaders(response.headers, apiKey);
      return read(call, status, headers, await deadline.race(response.text()), apiKey);
    } catch (error) {
      if (deadline.signal.aborted) throw deadline.signal.reason;
      const cause = copyError(error, apiKey);
      const message = `${call.method} ${call.path}: no whole answer (${innermost(cause)})`;
      const correlationId = headers?.["x-correlation-id"];
      return { error: new ConnectionError(message, { status, headers, correlationId, cause }), retry: true };
    } finally {
      this.#log("debug", `${call.method} ${call.path}`, {
        method: call.method,
        path: call.path,
        status,
        ms: Date.now() - started,
        attempt,
        correlationId: headers?.["x-correlation-id"],
      });
    }
  }

  #log(level: "debug" | "warn", message: string, fields: Record<string, unknown>): void {
    try {
      this.#settings.logger?.[level]?.(`guest-forms: ${message}`, fields);
    } catch {
      // A broken logger must not lose the answer of a create.
    }
  }
}

/** Makes an answer's text a result or an error. */
function read(call: Call, status: number, headers: ResponseHeaders, text: string, key: string): Outcome {
  const ok = status >= 200 && status < 300;
  const json = parse(ok ? text : redact(text, key));
  if (ok && json && call.accepts(json)) {
    const replayed = headers["idempotent-replayed"] === "true";
    return { answer: { data: json, response: { status, headers }, replayed } };
  }
  const details = {
    status,
    headers,
    correlationId: headers["x-correlation-id"],
    retryAfter: retryAfterSeconds(headers),
  };
  const retry = status === 429 || status >= 500;
  if (!ok && json && typeof json.code === "string" && typeof json.message === "string") {
    const { code, message, correlationId, errors } = json;
    const error = new (errorClass(code))(message, {
      ...details,
      code,
      correlationId: typeof correlationId === "string" ? correlationId : details.correlationId,
      errors: Array.isArray(errors) ? (errors as FieldError[]) : undefined,
    });
    return { error, retry };
  }
  const type = headers["content-type"] ?? "no content type";
  // Browsers show a redirect that was not followed as status 0.
  const what =
    status === 0 || (status >= 300 && status < 400)
      ? "a redirect, which is not followed: the key would travel with it"
      : `not an answer of this service (${type})`;
  const error = new ApiError(`${call.method} ${call.path}: ${status}, ${what}`, details);
  // JSON that ends early is a cut body whose length nobody announced; trying again is as safe as for any other cut.
  return { error, retry: retry || (ok && !json && type.includes("json")) };
}

/** A JSON object, or undefined for anything else. */
function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
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
function mergeHeaders(...layers: (Record<string, string | undefined> | undefined)[]): Record<string, string> {
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
