import { type ApiKey, parseApiKey } from "./api-key.js";
import { GuestFormsError } from "./errors.js";
import { Forms } from "./forms.js";
import { Listings } from "./listings.js";
import { Log, type Logger, type LogLevel } from "./log.js";
import type { ApiPromise, WithCorrelationId } from "./promise.js";
import { checkIdempotencyKey, sendOne } from "./resource.js";
import { type Fetch, type FetchOptions, platformFetch, readEnv, runtime } from "./runtime.js";
import { mergeHeaders, type RequestOptions, Transport } from "./transport.js";

/** Options of {@link GuestForms}. */
export interface ClientOptions {
  /**
   * The API key, or a function that returns it. Default: `GUEST_FORMS_API_KEY`. A function is called before each
   * request, including retries and pages. Its result is not cached: if it is slow, cache in the function. In a browser,
   * everyone who opens the page can read the key.
   */
  apiKey?: ApiKey | undefined;
  /**
   * URL of the service, with or without `/v1`: `https://forms.example.com`. Default: `GUEST_FORMS_BASE_URL`. There is
   * no built-in default, so that a key is never sent to a host you did not choose.
   */
  baseUrl?: string | undefined;
  /**
   * Total deadline of a call in milliseconds, including the wait for other calls, retries and the delays between them.
   * `Infinity`: none. Default: 60000 from when the call is sent, and again after a 429: waiting for other calls
   * (`maxConcurrency`) or for the rate limit does not count.
   */
  timeout?: number | undefined;
  /**
   * Maximum number of retries per call. Those after a 429 with `Retry-After` do not count: they end with the `timeout`. 0
   * excludes them, too. Default: 2.
   */
  maxRetries?: number | undefined;
  /**
   * Maximum number of calls at the same time; the others wait for their turn. A call that waits to be retried counts, so a 429
   * also holds the others back. A client of `withOptions` counts its own calls. Default: 8. `Infinity`: no maximum.
   */
  maxConcurrency?: number | undefined;
  /** Custom `fetch`, for tests or another HTTP client. Default: the platform's. */
  fetch?: Fetch | undefined;
  /** Additional options for every `fetch`, such as undici's `dispatcher` for a proxy, or `keepalive`. */
  fetchOptions?: FetchOptions | undefined;
  /** Receives the log lines, which never contain a key, a body or an email address. Default: `console`. */
  logger?: Logger | undefined;
  /**
   * Lowest level to log: `debug` is every request, `info` and `warn` are retries, `error` is calls that still fail
   * after their last attempt, `off` is nothing. Default: `GUEST_FORMS_LOG`; if unset, `debug` with a `logger`, otherwise
   * `off`.
   */
  logLevel?: LogLevel | undefined;
  /** Additional headers for every request. */
  headers?: Record<string, string | undefined> | undefined;
}

/** Options of {@link GuestForms.withOptions}. */
export interface ClientOverrides extends Omit<ClientOptions, "apiKey"> {
  /** Another key, or a function that returns it. Empty or undefined is an error, so no call uses the wrong key. */
  apiKey?: ApiKey;
}

/** Options of {@link GuestForms.request}. */
export interface RawRequestOptions extends RequestOptions {
  /** Query parameters; undefined ones are omitted. */
  query?: Record<string, string | number | boolean | undefined> | undefined;
  /** Request body, sent as JSON. */
  body?: unknown;
  /** `Idempotency-Key`: 1 to 255 printable ASCII characters. Default: none. */
  idempotencyKey?: string | undefined;
}

/**
 * Client of the guest-registration forms service.
 *
 * @example
 * ```ts
 * const client = new GuestForms({ apiKey: "grf_…", baseUrl: "https://forms.example.com" });
 * for await (const form of client.forms.list()) console.log(form.id, form.status);
 * ```
 */
export class GuestForms {
  /** Guest-registration forms: create, update, retrieve, list. */
  readonly forms: Forms;
  /** Listings: retrieve, list. */
  readonly listings: Listings;
  readonly #options: ClientOptions;
  readonly #transport: Transport;

  /** @throws {@link GuestFormsError} if the key or the base URL is missing, or an option is invalid. */
  constructor(options: ClientOptions = {}) {
    const key = options.apiKey ?? readEnv("GUEST_FORMS_API_KEY");
    const apiKey = typeof key === "function" ? key : parseApiKey(key);
    const baseUrl = parseBaseUrl(options.baseUrl ?? readEnv("GUEST_FORMS_BASE_URL"));
    if (!options.fetch && !runtime.fetch) throw new GuestFormsError("This runtime has no fetch: pass the fetch option");
    const transport = new Transport({
      ...options,
      apiKey,
      baseUrl,
      maxRetries: options.maxRetries ?? 2,
      maxConcurrency: options.maxConcurrency ?? 8,
      fetch: options.fetch ?? platformFetch,
      log: new Log(options.logger, options.logLevel),
    });
    this.#options = { ...options, apiKey, baseUrl };
    this.#transport = transport;
    this.forms = new Forms(transport);
    this.listings = new Listings(transport);
  }

  /**
   * Returns a new client that overrides options of this one. `headers` and `fetchOptions` are merged.
   *
   * @throws {@link GuestFormsError} if an option is invalid, or `apiKey` is present but empty or undefined.
   *
   * @example
   * ```ts
   * const forHost = client.withOptions({ apiKey: host.apiKey });
   * for await (const form of forHost.forms.list()) console.log(form.id);
   * ```
   */
  withOptions(options: ClientOverrides): GuestForms {
    const current = this.#options;
    if ("apiKey" in options && typeof options.apiKey !== "function") parseApiKey(options.apiKey);
    return new GuestForms({
      ...current,
      ...Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)),
      headers: mergeHeaders(current.headers, options.headers),
      fetchOptions: { ...current.fetchOptions, ...options.fetchOptions },
    });
  }

  /**
   * Sends a request to a path that this version has no method for, with the key, timeout, retries and errors of any
   * call. Resolves to the parsed JSON, or undefined for a 204. Every method is retried: if repeating the request is
   * not safe, pass an `idempotencyKey` that the operation supports, or `maxRetries: 0`.
   *
   * @throws {@link ApiError} and its subclasses, {@link ConnectionError}, {@link TimeoutError}, {@link AbortError};
   * {@link GuestFormsError} before any request if the path does not begin with `/` or contains a query.
   *
   * @example
   * ```ts
   * const page = await client.request<{ items: FormV1[] }>("GET", "/v1/forms", { query: { limit: 5 } });
   * console.log(page.items.length, page._correlationId);
   * ```
   */
  request<T = unknown>(
    method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
    path: string,
    options: RawRequestOptions = {},
  ): ApiPromise<WithCorrelationId<T>> {
    const { query, body, idempotencyKey } = options;
    const prepare = () => {
      // Without the slash, the path could change the host that receives the key.
      if (!/^\/[^?#]*$/.test(path)) {
        throw new GuestFormsError('path must begin with "/" and have no query: pass parameters as `query`');
      }
      return {
        method,
        path,
        query,
        body,
        idempotencyKey: checkIdempotencyKey(idempotencyKey),
        isExpected: (json: unknown, status: number) => json !== undefined || status === 204,
      };
    };
    return sendOne(this.#transport, prepare, options);
  }
}

function parseBaseUrl(baseUrl: string | undefined): string {
  if (!baseUrl) throw new GuestFormsError("No base URL: pass baseUrl or set GUEST_FORMS_BASE_URL");
  let url: InstanceType<typeof runtime.URL>;
  try {
    url = new runtime.URL(baseUrl);
  } catch {
    // Not quoted: the caller may have passed the key here by mistake.
    throw new GuestFormsError("baseUrl must be a URL such as https://forms.example.com");
  }
  if (!/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new GuestFormsError("baseUrl must be http(s)://host[:port][/path], with no user, query or fragment");
  }
  return url.origin + url.pathname.replace(/(\/+v1)?\/*$/, "");
}
