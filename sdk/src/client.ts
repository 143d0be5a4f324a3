import { GuestFormsError } from "./errors.js";
import { Forms } from "./forms.js";
import { Listings } from "./listings.js";
import { env, type Fetch, platformFetch, runtime } from "./runtime.js";
import { type Logger, Transport } from "./transport.js";

/** Options of {@link GuestForms}. */
export interface ClientOptions {
  /** The API key; else the environment's `GUEST_FORMS_API_KEY`. In a browser, whoever uses the page can read it. */
  apiKey?: string | undefined;
  /**
   * Where the service is, without `/v1`: `https://forms.example.com`; else the environment's `GUEST_FORMS_BASE_URL`.
   * There is no default: a key must not go to an address nobody named.
   */
  baseUrl?: string | undefined;
  /** Total deadline of a call in milliseconds, over all tries and the waits between them. 60000 unless told. */
  timeout?: number | undefined;
  /** How often a failed request is tried again at most. 2 unless told. */
  maxRetries?: number | undefined;
  /** The `fetch` to use: for a proxy, or for tests. The platform's unless told. */
  fetch?: Fetch | undefined;
  /** Gets a line for each request and each retry, never with a key, a body or an e-mail address. `console` fits. */
  logger?: Logger | undefined;
  /** Headers for every request. */
  headers?: Record<string, string | undefined> | undefined;
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

  /** @throws {@link GuestFormsError} where the key or the base URL is missing, or an option makes no sense. */
  constructor(options: ClientOptions = {}) {
    const apiKey = (options.apiKey ?? env("GUEST_FORMS_API_KEY"))?.trim();
    if (!apiKey) throw new GuestFormsError("No API key: pass apiKey or set GUEST_FORMS_API_KEY");
    if (!/^[!-~]+$/.test(apiKey)) throw new GuestFormsError("The API key has characters that no key has");
    if (!options.fetch && !runtime.fetch) throw new GuestFormsError("This runtime has no fetch: pass one");
    const transport = new Transport({
      apiKey,
      baseUrl: checkBaseUrl(options.baseUrl ?? env("GUEST_FORMS_BASE_URL")),
      timeout: options.timeout ?? 60_000,
      maxRetries: options.maxRetries ?? 2,
      fetch: options.fetch ?? platformFetch,
      logger: options.logger,
      headers: options.headers,
    });
    this.forms = new Forms(transport);
    this.listings = new Listings(transport);
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
  return url.href.replace(/\/+$/, "");
}
