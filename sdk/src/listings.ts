import { type ListParams, list, type PagePromise } from "./page.js";
import type { ApiPromise, WithCorrelationId } from "./promise.js";
import { buildPath, sendOne } from "./resource.js";
import type { Listing } from "./schema.js";
import type { RequestOptions, Transport } from "./transport.js";

const LISTINGS = "/v1/listings";

/** The listings in the key's scope; read-only. */
export class Listings {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Fetches a listing: `GET /v1/listings/{id}`.
   *
   * @throws {@link ResourceNotFoundError}, {@link UnauthenticatedError}, {@link RateLimitedError},
   * {@link InternalError}, {@link ConnectionError}, {@link TimeoutError}, {@link AbortError}; {@link GuestFormsError}
   * before any request if the id is empty.
   *
   * @example
   * ```ts
   * const { title, maxPeopleInListing } = await client.listings.retrieve(listingId);
   * ```
   */
  retrieve(id: string, options?: RequestOptions): ApiPromise<WithCorrelationId<Listing>> {
    return sendOne(this.#transport, () => ({ method: "GET", path: buildPath(LISTINGS, id) }), options);
  }

  /**
   * Lists listings, oldest first: `GET /v1/listings`. `await` it for the first page, or use `for await` for all
   * listings. `timeout` and `maxRetries` apply to each page.
   *
   * @throws {@link InvalidCursorError}, {@link ValidationError}, {@link UnauthenticatedError},
   * {@link RateLimitedError}, {@link InternalError}, {@link ConnectionError}, {@link TimeoutError},
   * {@link AbortError}.
   *
   * @example
   * ```ts
   * for await (const listing of client.listings.list()) console.log(listing.id, listing.title);
   * ```
   */
  list(params?: ListParams, options?: RequestOptions): PagePromise<Listing> {
    return list(this.#transport, LISTINGS, params, options);
  }
}
