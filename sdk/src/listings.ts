import { type ListParams, list, type PagePromise } from "./page.js";
import type { ApiPromise } from "./promise.js";
import { one, pathOf } from "./resource.js";
import type { RequestOptions, Transport } from "./transport.js";

/** A listing. Fields that a later service adds are kept as they come. */
export interface Listing {
  /** UUID. */
  id: string;
  /** The listing's public slug. */
  publicId: string;
  title: string;
  address: string;
  city: string;
  country: string;
  zipCode: string;
  district: string | null;
  /** IANA timezone identifier, such as `Europe/Lisbon`. */
  timezone: string;
  /** New forms, and forms moved here, need an active listing. */
  active: boolean;
  maxPeopleInListing: number | null;
  maxVehicles: number | null;
  allowPets: boolean | null;
  /** ISO 8601 instant in UTC; listings are listed in its order. */
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
   * Fetches a listing: `GET /v1/listings/{id}` (interface, "6. Fetch listing").
   *
   * @throws {@link ResourceNotFoundError}, {@link UnauthenticatedError}, {@link RateLimitedError},
   * {@link InternalError}, {@link ConnectionError}, {@link TimeoutError}; {@link GuestFormsError} on an empty id,
   * before any request.
   */
  retrieve(id: string, options?: RequestOptions): ApiPromise<Listing> {
    return one(this.#transport, () => ({ method: "GET", path: pathOf(LISTINGS, id) }), options);
  }

  /**
   * Lists listings, oldest first: `GET /v1/listings` (interface, "5. List listings"). `await` it for the first page,
   * or go through all listings with `for await`. `timeout` and `maxRetries` are for each page.
   *
   * @throws {@link InvalidCursorError}, {@link ValidationError}, {@link UnauthenticatedError},
   * {@link RateLimitedError}, {@link InternalError}, {@link ConnectionError}, {@link TimeoutError}.
   */
  list(params?: ListParams, options?: RequestOptions): PagePromise<Listing> {
    return list(this.#transport, LISTINGS, params, options);
  }
}
