import { GuestFormsError } from "./errors.js";
import { type ListParams, list, type PagePromise } from "./page.js";
import type { ApiPromise, WithCorrelationId } from "./promise.js";
import { buildPath, checkIdempotencyKey, sendOne } from "./resource.js";
import type { RequestOptions, Transport } from "./transport.js";

/** The statuses that this version of the SDK knows. `UNKNOWN` stands for any status that the service does not list. */
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

/** A form's status. Later versions of the service may add values: treat unknown ones as `UNKNOWN`. */
export type FormStatus = KnownFormStatus | (string & {});

/**
 * Returns whether this version of the SDK knows the status, and narrows its type for an exhaustive `switch`.
 *
 * @example
 * ```ts
 * const status = isKnownStatus(form.status) ? form.status : "UNKNOWN";
 * ```
 */
export const isKnownStatus = (status: FormStatus): status is KnownFormStatus =>
  (FORM_STATUSES as readonly string[]).includes(status);

/** A guest-registration form. Fields that later versions of the service add are kept. */
export interface FormV1 {
  /** Id of the form (UUID). */
  id: string;
  /** Id of the listing that the form belongs to (UUID). */
  listingId: string;
  /** Random slug of the guest's link, 21 characters. Anyone who has the link can fill in the form. */
  publicId: string | null;
  /** Status; `SENT` for a new form. Values may be added: see {@link isKnownStatus}. */
  status: FormStatus;
  /** Check-in instant, ISO 8601 in UTC. */
  checkInDate: string | null;
  /** Check-out instant, ISO 8601 in UTC. */
  checkOutDate: string | null;
  /** Number of guests. */
  numberOfGuests: number | null;
  /** Number of vehicles; null until the host sets it. */
  numberOfVehicles: number | null;
  /** Number of pets; null until the host sets it. */
  numberOfPets: number | null;
  /** Creation time, ISO 8601 in UTC. Lists are sorted by it. */
  createdAt: string;
}

/** Input of create and update. */
export interface FormInput {
  /** Id of a listing in the key's scope (UUID). On update, another listing moves the form there. */
  listingId: string;
  /** Check-in: a `Date`, or an ISO 8601 string with seconds and an offset, such as `2026-07-01T14:00:00Z`. */
  checkInDate: Date | string;
  /** Check-out, after `checkInDate`: a `Date`, or a string in the same format. */
  checkOutDate: Date | string;
  /** Number of guests: an integer from 1 to the listing's `maxPeopleInListing`, if that is set. */
  numberOfGuests: number;
  /**
   * Email address of the guest, at most 254 characters. Never returned. A create sends one email to it. On update,
   * undefined and null keep the stored address: an update can replace it, but not remove it.
   */
  guestEmail?: string | null | undefined;
}

/** Options of {@link Forms.create}. */
export interface CreateOptions extends RequestOptions {
  /**
   * `Idempotency-Key`: 1 to 255 printable ASCII characters, one per booking, such as the booking's id. Retrying with the
   * same key and input returns the same form. Needed only if an equal stay can be booked again: with a new key it gets
   * its own form once the first form was updated, rejected, invalidated or checked out. Default: none.
   */
  idempotencyKey?: string | undefined;
}

/** Options of {@link Forms.list}. */
export interface FormListParams extends ListParams {
  /** Only forms on this listing (UUID). If the listing is unknown or out of scope, the page is empty. */
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
   * Creates a form: `POST /v1/forms`. Requires a read-write key. Two creates with equal input are one form: the second
   * resolves to the form as first created, with `replayed: true` in `withResponse()`. For an equal stay that is booked
   * again, pass each booking's own `idempotencyKey`. For a changed booking, call {@link Forms.update}: a create with a
   * new key makes a second form.
   *
   * @throws {@link ValidationError}, {@link ResourceNotFoundError} (the listing), {@link ForbiddenError},
   * {@link IdempotencyKeyReusedError}, {@link PayloadTooLargeError}, {@link UnauthenticatedError},
   * {@link RateLimitedError}, {@link InternalError}, {@link ConnectionError}, {@link TimeoutError},
   * {@link AbortError}; {@link GuestFormsError} before any request if a Date or the `idempotencyKey` is invalid.
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
      const idempotencyKey = checkIdempotencyKey(options.idempotencyKey);
      return { method: "POST", path: FORMS, body: toRequestBody(input), idempotencyKey };
    };
    return sendOne(this.#transport, prepare, options);
  }

  /**
   * Replaces a form's stay, guests and listing: `PUT /v1/forms/{id}`. Requires a read-write key. Keeps the status, and
   * the guest's email address if `guestEmail` is undefined or null.
   *
   * @throws {@link ValidationError}, {@link ResourceNotFoundError} (the form or the listing), {@link ForbiddenError},
   * {@link PayloadTooLargeError}, {@link UnauthenticatedError}, {@link RateLimitedError}, {@link InternalError},
   * {@link ConnectionError}, {@link TimeoutError}, {@link AbortError}; {@link GuestFormsError} before any request
   * if the id is empty or a Date is invalid.
   *
   * @example
   * ```ts
   * const form = await client.forms.update(id, { ...input, numberOfGuests: 3 });
   * ```
   */
  update(id: string, input: FormInput, options?: RequestOptions): ApiPromise<WithCorrelationId<FormV1>> {
    const prepare = () => ({ method: "PUT", path: buildPath(FORMS, id), body: toRequestBody(input) });
    return sendOne(this.#transport, prepare, options);
  }

  /**
   * Fetches a form: `GET /v1/forms/{id}`.
   *
   * @throws {@link ResourceNotFoundError}, {@link UnauthenticatedError}, {@link RateLimitedError},
   * {@link InternalError}, {@link ConnectionError}, {@link TimeoutError}, {@link AbortError}; {@link GuestFormsError}
   * before any request if the id is empty.
   *
   * @example
   * ```ts
   * const form = await client.forms.retrieve(id);
   * console.log(form.status, form._correlationId);
   * ```
   */
  retrieve(id: string, options?: RequestOptions): ApiPromise<WithCorrelationId<FormV1>> {
    return sendOne(this.#transport, () => ({ method: "GET", path: buildPath(FORMS, id) }), options);
  }

  /**
   * Lists forms, oldest first: `GET /v1/forms`. `await` it for the first page, or use `for await` for all forms.
   * `timeout` and `maxRetries` apply to each page.
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

/** Keeps unknown properties, so that the service reports misspelled ones. */
const toRequestBody = (input: FormInput) => ({
  ...input,
  checkInDate: toIsoString("checkInDate", input.checkInDate),
  checkOutDate: toIsoString("checkOutDate", input.checkOutDate),
});

/** Rejects an invalid Date, which JSON would turn into null. `instanceof Date` misses Dates of other realms. */
function toIsoString(field: string, value: Date | string): string {
  if (typeof (value as Date | undefined)?.toISOString !== "function") return value as string;
  try {
    return (value as Date).toISOString();
  } catch {
    throw new GuestFormsError(`${field} is an invalid Date`);
  }
}
