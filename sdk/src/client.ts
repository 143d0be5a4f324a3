import { type ApiKey, checkApiKey } from "./api-key.js";
import { GuestFormsError } from "./errors.js";
import { Forms } from "./forms.js";
import { Listings } from "./listings.js";
import { Log, type Logger, type LogLevel } from "./log.js";
import type { ApiPromise, WithCorrelationId } from "./promise.js";
import { idempotencyKeyOf, one } from "./resource.js";
import { env, type Fetch, type FetchOptions, platformFetch, runtime } from "./runtime.js";
import { mergeHeaders, type RequestOptions, Transport } from "./transport.js";

/** Options of {@link GuestForms}. */
export interface ClientOptions {
  /**
   * The API key, or a function that gives it; `GUEST_FORMS_API_KEY` by default. A function is called before each
   * request, retries and pages included, and nothing is cached: cache in the function if it is slow. In a browser,
   * whoever uses the page can read the key.
   */
  apiKey?: ApiKey | undefined;
  /**
   * Address of the service, with or without `/v1`: `https://forms.example.com`; `GUEST_FORMS_BASE_URL` by default.
   * There is no other default: a key must not go to an address nobody named.
   */
  baseUrl?: string | undefined;
  /** Total deadline of a call in milliseconds, over all tries and the waits between them. Default: 60000. */
  timeout?: number | undefined;
  /** How often a failed request is retried at most. Default: 2. */
  maxRetries?: number | undefined;
  /** The `fetch` to use: for tests, or for another HTTP client. Default: the platform's. */
  fetch?: Fetch | undefined;
  /** More options for every `fetch`, such as undici's `dispatcher` for a proxy, or `keepalive`. */
  fetchOptions?: FetchOptions | undefined;
  /** Gets the log lines, never with a key, a body or an e-mail address. Default: `console`. */
  logger?: Logger | undefined;
  /**
   * How much is logged: `debug` every request, `info` and `warn` retries, `error` only calls that failed after the last
   * try, `off` nothing. Default: `GUEST_FORMS_LOG`; else `debug` with a `logger`, `off` without.
   */
  logLevel?: LogLevel | undefined;
  /** Headers for every request. */
  headers?: Record<string, string | undefined> | undefined;
}

/** Options of {@link GuestForms.withOptions}. */
export interface ClientOverrides extends Omit<ClientOptions, "apiKey"> {
  /** Another key, or a function that gives it. Refused if empty or undefined, so that no call uses the wrong key. */
  apiKey?: ApiKey;
}

/** Options of {@link GuestForms.request}. */
export interface RawRequestOptions extends RequestOptions {
  /** Query parameters; undefined ones are left out. */
  query?: Record<string, string | number | boolean | undefined> | undefined;
  /** The body, sent as JSON. */
  body?: unknown;
  /** Your own Idempotency-Key, 1 to 255 printable ASCII characters. A POST gets one by default. */
  idempotencyKey?: string | undefined;
}

/**
 * The client of the guest-registration forms service.
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
    const given = options.apiKey ?? env("GUEST_FORMS_API_KEY");
    const apiKey = typeof given === "function" ? given : checkApiKey(given);
    const baseUrl = checkBaseUrl(options.baseUrl ?? env("GUEST_FORMS_BASE_URL"));
    if (!options.fetch && !runtime.fetch) throw new GuestFormsError("This runtime has no fetch: pass one");
    const transport = new Transport({
      ...options,
      apiKey,
      baseUrl,
      timeout: options.timeout ?? 60_000,
      maxRetries: options.maxRetries ?? 2,
      fetch: options.fetch ?? platformFetch,
      log: new Log(options.logger, options.logLevel),
    });
    this.#options = { ...options, apiKey, baseUrl };
    this.#transport = transport;
    this.forms = new Forms(transport);
    this.listings = new Listings(transport);
  }

  /**
   * A new client with these options in place of this one's. `headers` and `fetchOptions` are added to this client's.
   *
   * @throws {@link GuestFormsError} if an option is invalid, or `apiKey` is given but empty or undefined.
   *
   * @example
   * ```ts
   * const forHost = client.withOptions({ apiKey: host.apiKey });
   * for await (const form of forHost.forms.list()) console.log(form.id);
   * ```
   */
  withOptions(options: ClientOverrides): GuestForms {
    const mine = this.#options;
    if ("apiKey" in options && typeof options.apiKey !== "function") checkApiKey(options.apiKey);
    return new GuestForms({
      ...mine,
      ...Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)),
      headers: mergeHeaders(mine.headers, options.headers),
      fetchOptions: { ...mine.fetchOptions, ...options.fetchOptions },
    });
  }

  /**
   * Sends a request to a path that this version has no method for. Same key, timeout, retries and errors as any call;
   * a 204 gives undefined. A POST or PATCH is retried with the same Idempotency-Key: if the operation ignores that, pass
   * `maxRetries: 0`.
   *
   * @throws the errors of any call; {@link GuestFormsError} if the path does not begin with `/`, or has a query.
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
      // Without the slash, the path could change the host, and the key would go there.
      if (!/^\/[^?#]*$/.test(path)) {
        throw new GuestFormsError('path must begin with "/" and have no query: pass it as `query`');
      }
      return {
        method,
        path,
        query,
        body,
        idempotencyKey:
          idempotencyKey !== undefined || method === "POST" || method === "PATCH"
            ? idempotencyKeyOf(idempotencyKey)
            : undefined,
        accepts: (json: unknown, status: number) => json !== undefined || status === 204,
      };
    };
    return one(this.#transport, prepare, options);
  }
}

function checkBaseUrl(baseUrl: string | undefined): string {
  if (!baseUrl) throw new GuestFormsError("No base URL: pass baseUrl or set GUEST_FORMS_BASE_URL");
  let url: InstanceType<typeof runtime.URL>;
  try {
    url = new runtime.URL(baseUrl);
  } catch {
    // Not quoted: it may be the key, with the two mixed up.
    throw new GuestFormsError("baseUrl is no URL such as https://forms.example.com");
  }
  if (!/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new GuestFormsError(
      "baseUrl must be http(s)://host[:port][/path], with no user, query or fragment",
    );
  }
  return url.origin + url.pathname.replace(/(\/+v1)?\/*$/, "");
}
