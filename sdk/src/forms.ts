import { GuestFormsError } from "./errors.js";
import { type ListParams, list, type PagePromise } from "./page.js";
import type { ApiPromise } from "./promise.js";
import { one, pathOf } from "./resource.js";
import { uuid } from "./runtime.js";
import type { RequestOptions, Transport } from "./transport.js";

/** The statuses that the interface enumerates; `UNKNOWN` is the service's own catch-all. */
export const FORM_STATUSES = [
  "SENT",
  "COMPLETED",
  "ACCEPTED",
  "REJECTED",
  "VALIDATED",
  "INVALIDATED",
  "CHECKED_OUT",
  "UNKNOWN",
] as const;

/** A status that this version of the SDK knows. */
export type KnownFormStatus = (typeof FORM_STATUSES)[number];

/** A form's status. The service may add values: treat one you do not know as `UNKNOWN`. */
export type FormStatus = KnownFormStatus | (string & {});

/** Whether this version of the SDK knows the status; narrows it for an exhaustive `switch`. */
export const isKnownStatus = (status: FormStatus): status is KnownFormStatus =>
  (FORM_STATUSES as readonly string[]).includes(status);

/** A guest-registration form. Fields that a later service adds are kept as they come. */
export interface FormV1 {
  /** UUID. */
  id: string;
  /** UUID of the listing the form is on. */
  listingId: string;
  /** The form's public slug. */
  publicId: string | null;
  status: FormStatus;
  /** ISO 8601 instant in UTC. */
  checkInDate: string | null;
  /** ISO 8601 instant in UTC. */
  checkOutDate: string | null;
  numberOfGuests: number | null;
  numberOfVehicles: number | null;
  numberOfPets: number | null;
  /** ISO 8601 instant in UTC; forms are listed in its order. */
  createdAt: string;
}

/** What create and update take. */
export interface FormInput {
  /** UUID of a listing in the key's scope. On update another one moves the form there. */
  listingId: string;
  /** A `Date`, or an ISO 8601 string with seconds and an offset, such as `2026-07-01T14:00:00Z`. */
  checkInDate: Date | string;
  /** As `checkInDate`, and after it. */
  checkOutDate: Date | string;
  /** A whole number of at least 1, and at most the listing's `maxPeopleInListing` where that is set. */
  numberOfGuests: number;
  /**
   * The guest's address, never returned. On create the guest is notified there; on update an absent one leaves the
   * stored one as it is.
   */
  guestEmail?: string | null | undefined;
}

/** Options of {@link Forms.create}. */
export interface CreateOptions extends RequestOptions {
  /**
   * Your own Idempotency-Key, 1 to 255 printable ASCII characters: repeating the create with it, even from another
   * process, gives the same form. Without it each call makes one of its own for its retries.
   */
  idempotencyKey?: string | undefined;
}

/** Options of {@link Forms.list}. */
export interface FormListParams extends ListParams {
  /** UUID: only forms on this listing. An unknown one, or one out of scope, gives an empty page. */
  listingId?: string | undefined;
}

const FORMS = "/v1/forms";

/** Guest-registration forms. */
export class Forms {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Creates a form: `POST /v1/forms` (interface, "1. Create form"). Needs a read-write key. Never creates a second
   * form for the same input: it then answers with the first, and `withResponse()` says `replayed`.
   *
   * @throws {@link ValidationError}, {@link ResourceNotFoundError} (the listing), {@link ForbiddenError},
   * {@link IdempotencyKeyReusedError}, {@link PayloadTooLargeError}, {@link UnauthenticatedError},
   * {@link RateLimitedError}, {@link InternalError}, {@link ConnectionError}, {@link TimeoutError};
   * {@link GuestFormsError} on an invalid Date or Idempotency-Key, before any request.
   */
  create(input: FormInput, options: CreateOptions = {}): ApiPromise<FormV1> {
    const prepare = () => {
      const { idempotencyKey = uuid() } = options;
      if (!/^[ -~]{1,255}$/.test(idempotencyKey)) {
        throw new GuestFormsError("idempotencyKey must be 1 to 255 printable ASCII characters");
      }
      return { method: "POST" as const, path: FORMS, body: bodyOf(input), idempotencyKey };
    };
    return one(this.#transport, prepare, options);
  }

  /**
   * Replaces a form's stay, guests and listing: `PUT /v1/forms/{id}` (interface, "2. Update form"). Needs a
   * read-write key. The status stays as it is.
   *
   * @throws {@link ValidationError}, {@link ResourceNotFoundError} (the form or the listing), {@link ForbiddenError},
   * {@link PayloadTooLargeError}, {@link UnauthenticatedError}, {@link RateLimitedError}, {@link InternalError},
   * {@link ConnectionError}, {@link TimeoutError}; {@link GuestFormsError} on an empty id or an invalid Date, before
   * any request.
   */
  update(id: string, input: FormInput, options?: RequestOptions): ApiPromise<FormV1> {
    const prepare = () => ({ method: "PUT" as const, path: pathOf(FORMS, id), body: bodyOf(input) });
    return one(this.#transport, prepare, options);
  }

  /**
   * Fetches a form: `GET /v1/forms/{id}` (interface, "4. Fetch form").
   *
   * @throws {@link ResourceNotFoundError}, {@link UnauthenticatedError}, {@link RateLimitedError},
   * {@link InternalError}, {@link ConnectionError}, {@link TimeoutError}; {@link GuestFormsError} on an empty id,
   * before any request.
   */
  retrieve(id: string, options?: RequestOptions): ApiPromise<FormV1> {
    return one(this.#transport, () => ({ method: "GET", path: pathOf(FORMS, id) }), options);
  }

  /**
   * Lists forms, oldest first: `GET /v1/forms` (interface, "3. List forms"). `await` it for the first page, or go
   * through all forms with `for await`. `timeout` and `maxRetries` are for each page.
   *
   * @throws {@link InvalidCursorError}, {@link ValidationError}, {@link UnauthenticatedError},
   * {@link RateLimitedError}, {@link InternalError}, {@link ConnectionError}, {@link TimeoutError}.
   */
  list(params?: FormListParams, options?: RequestOptions): PagePromise<FormV1> {
    return list(this.#transport, FORMS, params, options);
  }
}

/** Passes unknown properties on: the service names a misspelt one, where dropping it would lose its meaning. */
const bodyOf = (input: FormInput) => ({
  ...input,
  checkInDate: instant("checkInDate", input.checkInDate),
  checkOutDate: instant("checkOutDate", input.checkOutDate),
});

/** JSON would make null of an invalid Date. Told by its method, as a Date of another realm is no `instanceof`. */
function instant(field: string, value: Date | string): string {
  if (typeof (value as Date | undefined)?.toISOString !== "function") return value as string;
  try {
    return (value as Date).toISOString();
  } catch {
    throw new GuestFormsError(`${field} is an invalid Date`);
  }
}
