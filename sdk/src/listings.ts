import { type ListParams, list, type PagePromise } from "./page.js";
import type { ApiPromise, WithCorrelationId } from "./promise.js";
import { one, pathOf } from "./resource.js";
import type { RequestOptions, Transport } from "./transport.js";

/** A listing. Fields that a later service adds are kept as they come. */
export interface Listing {
  /** Id of the listing (UUID). */
  id: string;
  /** Public slug of the listing. */
  publicId: string;
  /** Title, as the host wrote it. */
  title: string;
  /** Street and number. */
  address: string;
  /** City. */
  city: string;
  /** Country. */
  country: string;
  /** Postal code. */
  zipCode: string;
  /** District, if any. */
  district: string | null;
  /** IANA timezone identifier, such as `Europe/Lisbon`. */
  timezone: string;
  /** Whether the listing takes new forms, and forms moved from another listing. */
  active: boolean;
  /** Most guests on a form; null for no limit. */
  maxPeopleInListing: number | null;
  /** Most vehicles on a form; null for no limit. */
  maxVehicles: number | null;
  /** Whether pets are allowed; null if the host has not said. */
  allowPets: boolean | null;
  /** Creation time, ISO 8601 in UTC; lists are in its order. */
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
   * Fetches a listing: the operation "Fetch listing", `GET /v1/listings/{id}`.
   *
   * @throws {@link ResourceNotFoundError}, {@link UnauthenticatedError}, {@link RateLimitedError},
   * {@link InternalError}, {@link ConnectionError}, {@link TimeoutError}, {@link AbortError}; {@link GuestFormsError}
   * on an empty id, before any request.
   *
   * @example
   * ```ts
   * const { title, maxPeopleInListing } = await client.listings.retrieve(listingId);
   * ```
   */
  retrieve(id: string, options?: RequestOptions): ApiPromise<WithCorrelationId<Listing>> {
    return one(this.#transport, () => ({ method: "GET", path: pathOf(LISTINGS, id) }), options);
  }

  /**
   * Lists listings, oldest first: the operation "List listings", `GET /v1/listings`. `await` it for the first page,
   * or iterate over all listings with `for await`. `timeout` and `maxRetries` are per page.
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
