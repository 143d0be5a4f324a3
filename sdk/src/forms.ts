import { GuestFormsError } from "./errors.js";
import { type ListParams, list, type PagePromise } from "./page.js";
import type { ApiPromise, WithCorrelationId } from "./promise.js";
import { idempotencyKeyOf, one, pathOf } from "./resource.js";
import type { RequestOptions, Transport } from "./transport.js";

/** The statuses this version of the SDK knows; `UNKNOWN` is the service's own catch-all. */
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

/**
 * Whether this version of the SDK knows the status; narrows it for an exhaustive `switch`.
 *
 * @example
 * ```ts
 * const status = isKnownStatus(form.status) ? form.status : "UNKNOWN";
 * ```
 */
export const isKnownStatus = (status: FormStatus): status is KnownFormStatus =>
  (FORM_STATUSES as readonly string[]).includes(status);

/** A guest-registration form. Fields that a later service adds are kept as they come. */
export interface FormV1 {
  /** Id of the form (UUID). */
  id: string;
  /** Id of the listing the form is on (UUID). */
  listingId: string;
  /** Public slug of the form, part of the guest's link: whoever has it can fill the form in. */
  publicId: string | null;
  /** Where the form stands; a new one is `SENT`. New values may appear: see {@link isKnownStatus}. */
  status: FormStatus;
  /** Check-in instant, ISO 8601 in UTC. */
  checkInDate: string | null;
  /** Check-out instant, ISO 8601 in UTC. */
  checkOutDate: string | null;
  /** Number of guests. */
  numberOfGuests: number | null;
  /** Number of vehicles, set by the host; null until then. */
  numberOfVehicles: number | null;
  /** Number of pets, set by the host; null until then. */
  numberOfPets: number | null;
  /** Creation time, ISO 8601 in UTC; lists are in its order. */
  createdAt: string;
}

/** What create and update take. */
export interface FormInput {
  /** Id of a listing the key has access to (UUID). On update, another one moves the form there. */
  listingId: string;
  /** Check-in: a `Date`, or an ISO 8601 string with seconds and an offset, such as `2026-07-01T14:00:00Z`. */
  checkInDate: Date | string;
  /** Check-out, after `checkInDate`: a `Date`, or a string as there. */
  checkOutDate: Date | string;
  /** Number of guests: an integer from 1 to the listing's `maxPeopleInListing`, if that is set. */
  numberOfGuests: number;
  /**
   * E-mail address of the guest, never returned. On create, the guest is notified there. On update, an absent one and
   * `null` both keep the stored address: an update can replace it, but not remove it.
   */
  guestEmail?: string | null | undefined;
}

/** Options of {@link Forms.create}. */
export interface CreateOptions extends RequestOptions {
  /**
   * Your own Idempotency-Key, 1 to 255 printable ASCII characters: repeating the create with it, even from another
   * process, gives the same form. By default each call makes a key of its own for its retries.
   */
  idempotencyKey?: string | undefined;
}

/** Options of {@link Forms.list}. */
export interface FormListParams extends ListParams {
  /** Only forms on this listing (UUID). If it is unknown, or the key has no access to it, the page is empty. */
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
   * Creates a form: the operation "Create form", `POST /v1/forms`. Needs a read-write key. Equal input does not
   * create a second form, unless the first was updated since: the call resolves to the first, and `withResponse()` says
   * `replayed`. Pass your own `idempotencyKey` to be safe across calls in any case.
   *
   * @throws {@link ValidationError}, {@link ResourceNotFoundError} (the listing), {@link ForbiddenError},
   * {@link IdempotencyKeyReusedError}, {@link PayloadTooLargeError}, {@link UnauthenticatedError},
   * {@link RateLimitedError}, {@link InternalError}, {@link ConnectionError}, {@link TimeoutError};
   * {@link AbortError}; {@link GuestFormsError} on an invalid Date or Idempotency-Key, before any request.
   *
   * @example
   * ```ts
   * const form = await client.forms.create(
   *   {
   *     listingId,
   *     checkInDate: new Date("2030-07-01T15:00:00Z"),
   *     checkOutDate: "2030-07-08T10:00:00+02:00",
   *     numberOfGuests: 2,
   *     guestEmail: "ana@example.com",
   *   },
   *   { idempotencyKey: `booking-${booking.id}` },
   * );
   * ```
   */
  create(input: FormInput, options: CreateOptions = {}): ApiPromise<WithCorrelationId<FormV1>> {
    const prepare = () => {
      const idempotencyKey = idempotencyKeyOf(options.idempotencyKey);
      return { method: "POST", path: FORMS, body: bodyOf(input), idempotencyKey };
    };
    return one(this.#transport, prepare, options);
  }

  /**
   * Replaces a form's stay, guests and listing: the operation "Update form", `PUT /v1/forms/{id}`. Needs a read-write
   * key. The status stays as it is, and so does the guest's address if `guestEmail` is absent or null.
   *
   * @throws {@link ValidationError}, {@link ResourceNotFoundError} (the form or the listing), {@link ForbiddenError},
   * {@link PayloadTooLargeError}, {@link UnauthenticatedError}, {@link RateLimitedError}, {@link InternalError},
   * {@link ConnectionError}, {@link TimeoutError}, {@link AbortError}; {@link GuestFormsError} on an empty id or an
   * invalid Date, before any request.
   *
   * @example
   * ```ts
   * const form = await client.forms.update(id, { ...input, numberOfGuests: 3 });
   * ```
   */
  update(id: string, input: FormInput, options?: RequestOptions): ApiPromise<WithCorrelationId<FormV1>> {
    const prepare = () => ({ method: "PUT", path: pathOf(FORMS, id), body: bodyOf(input) });
    return one(this.#transport, prepare, options);
  }

  /**
   * Fetches a form: the operation "Fetch form", `GET /v1/forms/{id}`.
   *
   * @throws {@link ResourceNotFoundError}, {@link UnauthenticatedError}, {@link RateLimitedError},
   * {@link InternalError}, {@link ConnectionError}, {@link TimeoutError}, {@link AbortError}; {@link GuestFormsError}
   * on an empty id, before any request.
   *
   * @example
   * ```ts
   * const form = await client.forms.retrieve(id);
   * console.log(form.status, form._correlationId);
   * ```
   */
  retrieve(id: string, options?: RequestOptions): ApiPromise<WithCorrelationId<FormV1>> {
    return one(this.#transport, () => ({ method: "GET", path: pathOf(FORMS, id) }), options);
  }

  /**
   * Lists forms, oldest first: the operation "List forms", `GET /v1/forms`. `await` it for the first page, or iterate
   * over all forms with `for await`. `timeout` and `maxRetries` are per page.
   *
   * @throws {@link InvalidCursorError}, {@link ValidationError}, {@link UnauthenticatedError},
   * {@link RateLimitedError}, {@link InternalError}, {@link ConnectionError}, {@link TimeoutError},
   * {@link AbortError}.
   *
   * @example
   * ```ts
   * for await (const form of client.forms.list({ listingId })) console.log(form.id, form.status);
   * ```
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
