import type { FieldError } from "./errors.js";
import { type Body, findFaults, isUuid, parseBody } from "./fake-input.js";
import { BODY_FIELDS, CODES, ENDED_STATUSES, NEW_FORM, NEW_LISTING, UPDATE_FIELDS } from "./fake-schema.js";
import { type Fetch, type FetchResponse, runtime } from "./runtime.js";
import type { FormV1, KnownErrorCode, Listing } from "./schema.js";

/** An error response. */
export interface FakeError {
  /** HTTP status. */
  status: number;
  /** Code of the envelope. Default: the service's for this status, or `INTERNAL_ERROR`. */
  code?: KnownErrorCode;
  /** The rejected fields of a `VALIDATION_ERROR`. */
  errors?: FieldError[];
  /** Seconds, in `Retry-After`. Default: 1 for 429 and 503, the service's minimum; otherwise no such header. */
  retryAfter?: number;
}

/** An error response, or a connection that breaks before or after the service has processed the request. */
export type FakeFailure = FakeError | "lost request" | "lost response";

/** A method of the operations. */
export type FakeMethod = "GET" | "POST" | "PUT";

/** A request as {@link FakeService} received it. */
export interface FakeRequest {
  /** `GET`, `POST` or `PUT`. */
  method: string;
  /** Path and query, such as `/v1/forms?limit=5`. */
  path: string;
  /** Headers by lower-case name, including the key. */
  headers: Record<string, string>;
  /** The parsed body; undefined if there is none. */
  body: unknown;
}

const codeOf = (status: number) => CODES[status] ?? (status < 500 ? "VALIDATION_ERROR" : "INTERNAL_ERROR");

class Rejection {
  readonly error: FakeError;
  readonly message: string | undefined;
  readonly headers: Record<string, string> | undefined;
  constructor(error: FakeError, message?: string, headers?: Record<string, string>) {
    this.error = error;
    this.message = message;
    this.headers = headers;
  }
}

function requireNone(errors: FieldError[]): void {
  if (errors.length > 0) throw new Rejection({ status: 400, errors });
}

function find<Item extends { id: string }>(items: readonly Item[], id: string | undefined): Item {
  const found = items.find((item) => item.id === id?.toLowerCase());
  if (!found) throw new Rejection({ status: 404 });
  return found;
}

/** `form`: the form before an update. */
function checkRules(listing: Listing, { numberOfGuests }: Body, form?: FormV1): void {
  const { active, maxPeopleInListing, maxVehicles, allowPets } = listing;
  const { numberOfVehicles, numberOfPets, listingId } = form ?? {};
  const isNew = listingId !== listing.id;
  const maxGuests = maxPeopleInListing ?? Infinity;
  const breaksParty = (numberOfVehicles ?? 0) > (maxVehicles ?? Infinity) || (allowPets === false && numberOfPets);
  const faults: FieldError[] = [];
  if (isNew && !active) faults.push({ field: "listingId", issue: "the listing is not active" });
  if (numberOfGuests > maxGuests)
    faults.push({ field: "numberOfGuests", issue: `must be at most ${maxGuests} on this listing` });
  if (isNew && breaksParty)
    faults.push({ field: "listingId", issue: "the listing does not allow the form's vehicles or pets" });
  requireNone(faults);
}

/** Names the form of an Idempotency-Key, if it is in scope. */
function keyReused(forms: readonly FormV1[], { id }: FormV1): Rejection {
  if (!forms.some((form) => form.id === id)) return new Rejection({ status: 422 });
  const message = `This Idempotency-Key belongs to form ${id}, created with a different request body.`;
  return new Rejection({ status: 422 }, message, { location: `/v1/forms/${id}` });
}

const CANCELLED = "CANCELLED";

type Row = { id: string; createdAt: string; listingId?: string };

/** Lists are sorted by it. */
const positionOf = ({ id, createdAt }: Row) => `${createdAt}_${id}`;

/** The fields of a body that a form has. The others are write-only. */
const stored = (body: Body) => Object.fromEntries(Object.entries(body).filter(([name]) => name in NEW_FORM));

/**
 * The service in memory, to test programs that use this SDK without a server. The operations on forms and listings have the results
 * and errors of the service, for one key holder who may use any key. One that begins with `grf_ro_` is read-only. There is no rate limit,
 * no limit on the size of bodies, and Idempotency-Keys are kept forever.
 *
 * @example
 * ```ts
 * const service = new FakeService();
 * const { id } = service.addListing({ maxPeopleInListing: 4 });
 * const fake = new GuestForms({ apiKey: "grf_rw_test", baseUrl: "https://fake.test", fetch: service.fetch });
 * ```
 */
export class FakeService {
  /** The listings in the key's scope, oldest first. Change them, or remove one from the scope. */
  readonly listings: Listing[] = [];
  /** All forms, oldest first. Change one as its host or guest would: `service.forms[0]!.status = "COMPLETED"`. */
  readonly forms: FormV1[] = [];
  /** All requests, oldest first. */
  readonly requests: FakeRequest[] = [];
  readonly #failures: Record<"any" | FakeMethod, FakeFailure[]> = { any: [], GET: [], POST: [], PUT: [] };
  /** The last body of each form, by its id. */
  readonly #bodies = new Map<string, Body>();
  /** The original responses to replay, by body and by Idempotency-Key. */
  readonly #byBody = new Map<string, FormV1>();
  readonly #byKey = new Map<string, { body: string; original: FormV1 }>();
  #ids = 0;

  /** The `fetch` option of a client. */
  readonly fetch: Fetch = async (url, { method, headers, body }) => {
    const { pathname, search } = new runtime.URL(url);
    const request = { method, path: pathname + search, headers, body: body === null ? undefined : JSON.parse(body) };
    this.requests.push(request);
    const failure = this.#failures[method as FakeMethod]?.shift() ?? this.#failures.any.shift();
    if (failure === "lost request") throw new TypeError("The connection was lost");
    const response = typeof failure === "object" ? this.#fail(failure) : this.#respond(request, pathname, search);
    if (failure === "lost response") throw new TypeError("The connection was lost");
    return response;
  };

  /**
   * Adds a listing to the key's scope. Absent fields have the values of a listing without limits.
   *
   * @example
   * ```ts
   * const listing = new FakeService().addListing({ title: "Loft", allowPets: false });
   * ```
   */
  addListing(values: Partial<Listing> = {}): Listing {
    const listing = { ...NEW_LISTING, ...this.#identify(), ...values };
    this.listings.push(listing);
    return listing;
  }

  /**
   * Fails the next requests, one each.
   *
   * @example
   * ```ts
   * new FakeService().failNext({ status: 503, retryAfter: 1 }, "lost response");
   * ```
   */
  failNext(...failures: FakeFailure[]): void {
    this.#failures.any.push(...failures);
  }

  /**
   * Fails the next requests with this method, one each, before those of {@link FakeService.failNext}.
   *
   * @example
   * ```ts
   * new FakeService().failNextOf("POST", "lost response");
   * ```
   */
  failNextOf(method: FakeMethod, ...failures: FakeFailure[]): void {
    this.#failures[method].push(...failures);
  }

  #identify() {
    this.#ids += 1;
    const id = `00000000-0000-4000-8000-${String(this.#ids).padStart(12, "0")}`;
    return { id, publicId: id.slice(-21), createdAt: new Date().toISOString() };
  }

  #send(status: number, body: object, headers: Record<string, string> = {}): FetchResponse {
    const { id: correlationId } = this.#identify();
    const always = { "content-type": "application/json; charset=utf-8", "x-correlation-id": correlationId };
    const text = JSON.stringify(status < 400 ? body : { ...body, correlationId });
    return new runtime.Response(text, { status, headers: { ...always, ...headers } });
  }

  #fail(
    { status, code = codeOf(status), errors, retryAfter }: FakeError,
    message = `${status} of FakeService`,
    headers: Record<string, string> = {},
  ): FetchResponse {
    const envelope = { code, message, ...(errors && { errors }) };
    const seconds = retryAfter ?? (status === 429 || status === 503 ? 1 : undefined);
    return this.#send(status, envelope, seconds === undefined ? headers : { "retry-after": String(seconds) });
  }

  #respond({ method, headers, body }: FakeRequest, pathname: string, search: string): FetchResponse {
    const [, collection, id] = /\/v1\/(forms|listings)(?:\/([^/]+))?$/.exec(pathname) ?? [];
    const forms = this.forms.filter(({ listingId }) => this.listings.some((listing) => listing.id === listingId));
    const readBody = (fields = BODY_FIELDS) => {
      if (/^bearer grf_ro_/i.test(headers.authorization ?? "")) throw new Rejection({ status: 403 });
      requireNone(findFaults(body, fields));
      return parseBody(body as Record<string, unknown>, fields);
    };
    try {
      switch (`${method} ${collection}${id === undefined ? "" : "/id"}`) {
        case "GET forms":
          return this.#list("forms", forms, search);
        case "GET forms/id":
          return this.#send(200, find(forms, id));
        case "GET listings":
          return this.#list("listings", this.listings, search);
        case "GET listings/id":
          return this.#send(200, find(this.listings, id));
        case "POST forms":
          return this.#create(forms, readBody(), headers["idempotency-key"]);
        case "PUT forms/id":
          if (id === undefined || !isUuid(id)) throw new Rejection({ status: 404 });
          return this.#update(forms, id, readBody(UPDATE_FIELDS), Object.keys(body as object));
        default:
          throw new Rejection({ status: collection ? 405 : 404 });
      }
    } catch (error) {
      if (!(error instanceof Rejection)) throw error;
      return this.#fail(error.error, error.message, error.headers);
    }
  }

  #list(kind: "forms" | "listings", inScope: readonly Row[], search: string): FetchResponse {
    const { limit = "50", cursor, ...filters } = Object.fromEntries(new runtime.URLSearchParams(search));
    const faults: FieldError[] = [];
    if (!/^-?\d+$/.test(limit)) faults.push({ field: "limit", issue: "must be an integer" });
    const listingId = kind === "forms" ? filters.listingId?.toLowerCase() : undefined;
    if (listingId !== undefined && !isUuid(listingId)) faults.push({ field: "listingId", issue: "must be a UUID" });
    const unknown = Object.keys(filters).filter((field) => kind !== "forms" || field !== "listingId");
    requireNone([...faults, ...unknown.map((field) => ({ field, issue: "is not a known parameter" }))]);
    const prefix = `${kind}_${listingId ?? ""}_`;
    if (cursor !== undefined && !cursor.startsWith(`${prefix}2`)) {
      throw new Rejection({ status: 400, code: "INVALID_CURSOR" });
    }
    const after = cursor?.slice(prefix.length) ?? "";
    const rest = inScope
      .filter((row) => (listingId === undefined || row.listingId === listingId) && positionOf(row) > after)
      .sort((a, b) => (positionOf(a) < positionOf(b) ? -1 : 1));
    const items = rest.slice(0, Math.min(Math.max(Number(limit), 1), 100));
    const last = rest.length > items.length ? items.at(-1) : undefined;
    return this.#send(200, { items, nextCursor: last ? prefix + positionOf(last) : null });
  }

  #create(forms: readonly FormV1[], body: Body, key: string | undefined): FetchResponse {
    const listing = find(this.listings, body.listingId);
    const text = JSON.stringify(body);
    const byKey = key === undefined ? undefined : this.#byKey.get(key);
    if (byKey && byKey.body !== text) throw keyReused(forms, byKey.original);
    const byBody = this.#byBody.get(text);
    const original = byKey?.original ?? (key !== undefined && this.#isReplaceable(byBody, body) ? undefined : byBody);
    if (original) find(forms, original.id);
    else checkRules(listing, body);
    const answer = original ?? this.#addForm(body);
    if (!byKey) this.#byBody.set(text, answer);
    if (key !== undefined) this.#byKey.set(key, { body: text, original: answer });
    return this.#send(201, answer, {
      location: `/v1/forms/${answer.id}`,
      ...(original && { "idempotent-replayed": "true" }),
    });
  }

  /** Whether the form was updated or has ended since, so that a new key makes another one. An added external id is no such update. */
  #isReplaceable(original: FormV1 | undefined, body: Body): boolean {
    const form = this.forms.find(({ id }) => id === original?.id);
    if (!form) return false;
    const now = { ...this.#bodies.get(form.id), ...(body.externalId === null && { externalId: null }) };
    return ENDED_STATUSES.includes(form.status) || JSON.stringify(now) !== JSON.stringify(body);
  }

  /** Returns a copy, the original response. */
  #addForm(body: Body): FormV1 {
    const identity = this.#identify();
    const form = { ...NEW_FORM, ...identity, ...stored(body), updatedAt: identity.createdAt };
    this.forms.push(form);
    this.#bodies.set(form.id, body);
    return { ...form };
  }

  /** What is not sent keeps its value, and a write-only field that is null too. */
  #update(forms: readonly FormV1[], id: string, { cancelled, ...body }: Body, sent: string[]): FetchResponse {
    const form = find(forms, id);
    const listing = find(this.listings, body.listingId);
    const from = form.status;
    const rejectIf = (isWrong: boolean, issue: string) => requireNone(isWrong ? [{ field: "cancelled", issue }] : []);
    if (cancelled) {
      rejectIf(from === "CHECKED_OUT", "a form that is CHECKED_OUT cannot be cancelled");
      return this.#send(200, this.#change(form, { status: CANCELLED }));
    }
    rejectIf(from === CANCELLED, "the form is cancelled");
    checkRules(listing, body, form);
    const before = this.#bodies.get(form.id);
    const kept = Object.keys(body).filter(
      (name) => !sent.includes(name) || (!(name in NEW_FORM) && body[name] === null),
    );
    const after = { ...body, ...Object.fromEntries(kept.map((name) => [name, before?.[name] ?? null])) };
    this.#bodies.set(form.id, after);
    return this.#send(200, this.#change(form, stored(after)));
  }

  #change(form: FormV1, values: Partial<FormV1>): FormV1 {
    const isChanged = Object.entries(values).some(([name, value]) => form[name as keyof FormV1] !== value);
    return Object.assign(form, values, isChanged && { updatedAt: new Date().toISOString() });
  }
}
