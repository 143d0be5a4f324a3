import { FormChanges } from "./changes.js";
import { GuestFormsError } from "./errors.js";
import { isObject } from "./json.js";
import { type ListParams, list, type PagePromise } from "./page.js";
import type { ApiPromise, WithCorrelationId } from "./promise.js";
import { buildPath, checkIdempotencyKey, sendOne, withIsoStrings } from "./resource.js";
import {
  FORM_STATUSES,
  type FormFilters,
  type FormInput,
  type FormStatus,
  type FormUpdate,
  type FormV1,
  type KnownFormStatus,
} from "./schema.js";
import type { RequestOptions, Transport } from "./transport.js";

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

/** Options of {@link Forms.create}. */
export interface CreateOptions extends RequestOptions {
  /**
   * `Idempotency-Key`: 1 to 255 printable ASCII characters. Retrying with the same key and input returns the same form.
   * Not needed if each input has its booking's own `externalId`. Without one, an equal stay with a new key gets its own
   * form once the first form was updated or has ended. Default: none.
   */
  idempotencyKey?: string | undefined;
}

/** Options of {@link Forms.list}. */
export interface FormListParams extends ListParams, FormFilters {}

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
   * resolves to the form as first created, with `_replayed: true`. So give each booking's own id as `externalId`. For a
   * changed booking, call {@link Forms.update}.
   *
   * @throws {@link ValidationError}, {@link ResourceNotFoundError} (the listing), {@link ForbiddenError},
   * {@link IdempotencyKeyReusedError}, {@link PayloadTooLargeError}, {@link UnauthenticatedError},
   * {@link RateLimitedError}, {@link InternalError}, {@link ConnectionError}, {@link TimeoutError},
   * {@link AbortError}; {@link GuestFormsError} before any request if a Date or the `idempotencyKey` is invalid.
   *
   * @example
   * ```ts
   * const form = await client.forms.create({
   *   listingId,
   *   checkInDate: new Date("2030-07-01T15:00:00Z"),
   *   checkOutDate: "2030-07-08T10:00:00+02:00",
   *   numberOfGuests: 2,
   *   guestEmail: "ana@example.com",
   *   externalId: `booking-${booking.id}`,
   * });
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
   * Replaces a form's stay, guests and listing: `PUT /v1/forms/{id}`. Requires a read-write key. Keeps the status, the
   * guest's email address if `guestEmail` is undefined or null, and the `externalId` if it is undefined. With
   * `cancelled: true` it cancels the form, and applies nothing else of `input`.
   *
   * @throws {@link ValidationError} (also if the form is `CANCELLED`), {@link ResourceNotFoundError} (the form or the
   * listing), {@link ForbiddenError}, {@link PayloadTooLargeError}, {@link UnauthenticatedError},
   * {@link RateLimitedError}, {@link InternalError}, {@link ConnectionError}, {@link TimeoutError}, {@link AbortError};
   * {@link GuestFormsError} before any request if the id is empty or a Date is invalid.
   *
   * @example
   * ```ts
   * const form = await client.forms.update(id, { ...input, numberOfGuests: 3 });
   * ```
   */
  update(id: string, input: FormUpdate, options?: RequestOptions): ApiPromise<WithCorrelationId<FormV1>> {
    const prepare = () => ({ method: "PUT", path: buildPath(FORMS, id), body: toRequestBody(input) });
    return sendOne(this.#transport, prepare, options);
  }

  /**
   * Cancels a form, for good: `GET` and `PUT /v1/forms/{id}`. Requires a read-write key. Its status becomes `CANCELLED`;
   * cancelling it again changes nothing. `timeout` and `maxRetries` apply to each of the two requests.
   *
   * @throws {@link ValidationError} if the form is `CHECKED_OUT`, and the errors of {@link Forms.retrieve} and
   * {@link Forms.update}.
   *
   * @example
   * ```ts
   * await client.forms.cancel(id);
   * ```
   */
  cancel(id: string, options?: RequestOptions): ApiPromise<WithCorrelationId<FormV1>> {
    const prepare = async () => {
      const { listingId, checkInDate, checkOutDate, numberOfGuests } = await this.retrieve(id, options);
      const body = { listingId, checkInDate, checkOutDate, numberOfGuests, cancelled: true };
      return { method: "PUT", path: buildPath(FORMS, id), body };
    };
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

  /**
   * The forms that changed since `mark`, and the mark to keep for the next call: `GET /v1/forms`. Without a mark, all forms.
   * Those of the last minute come again each time, until a later change moves the mark. A form that left the key's scope, or
   * that does not match the filters anymore, does not come, nor does one that a new membership brought in: from time to time,
   * read all forms.
   *
   * @throws the errors of {@link Forms.list}; {@link GuestFormsError} at once if `mark` is an invalid Date.
   *
   * @example
   * ```ts
   * const changes = client.forms.changesSince(mark);
   * for await (const form of changes) console.log(form.id, form.status);
   * mark = changes.mark;
   * ```
   */
  changesSince(
    mark?: Date | string | null,
    filters?: Omit<FormFilters, "updatedSince">,
    options?: RequestOptions,
  ): FormChanges {
    const updatedSince = withIsoStrings({ mark }).mark ?? undefined;
    return new FormChanges(updatedSince, () => this.list({ limit: 100, ...filters, updatedSince }, options));
  }
}

/** Keeps unknown properties, so that the service reports misspelled ones. */
function toRequestBody(input: FormInput | FormUpdate) {
  if (!isObject(input)) throw new GuestFormsError("A create or update requires the form's properties as an object");
  return withIsoStrings(input);
}
