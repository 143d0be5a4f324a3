import { type ListParams, list, type PagePromise } from "./page.js";
import type { ApiPromise, WithCorrelationId } from "./promise.js";
import { buildPath, sendOne } from "./resource.js";
import type { RequestOptions, Transport } from "./transport.js";

/** A listing. Fields that later versions of the service add are kept. */
export interface Listing {
  /** Id of the listing (UUID). */
  id: string;
  /** Random public slug, 21 characters. */
  publicId: string;
  /** Title, as entered by the host. */
  title: string;
  /** Street and number. */
  address: string;
  /** City. */
  city: string;
  /** Country. */
  country: string;
  /** Postal code. */
  zipCode: string;
  /** District; null if not set. */
  district: string | null;
  /** IANA time zone identifier, such as `Europe/Lisbon`. */
  timezone: string;
  /** Whether forms can be created on the listing or moved to it. */
  active: boolean;
  /** Maximum number of guests per form; null for no limit. */
  maxPeopleInListing: number | null;
  /** Maximum number of vehicles per form; null for no limit. */
  maxVehicles: number | null;
  /** Whether pets are allowed; null if not specified. */
  allowPets: boolean | null;
  /** Creation time, ISO 8601 in UTC. Lists are sorted by it. */
  createdAt: string;
}

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
