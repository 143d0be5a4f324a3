import { type Body, findFaults, isUuid, parseBody } from "./fake-input.js";
import {
  CANCELLED,
  checkRules,
  checkStatus,
  contentOf,
  type FakeError,
  find,
  keyReused,
  Rejection,
  requireNone,
  selectPage,
  stored,
} from "./fake-rules.js";
import { BODY_FIELDS, CODES, ENDED_STATUSES, NEW_FORM, NEW_LISTING, UPDATE_FIELDS } from "./fake-schema.js";
import { type Fetch, type FetchResponse, runtime } from "./runtime.js";
import type { FormV1, Listing } from "./schema.js";

export type { FakeError } from "./fake-rules.js";

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

/**
 * The service in memory, to test programs that use this SDK without a server. The operations on forms and listings have the results
 * and errors of the service, for one key holder who may use any key. One that begins with `grf_ro_` is read-only. There is no rate limit,
 * no limit on the size of bodies, `guestUrl` is null unless you set it, and Idempotency-Keys are kept forever.
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
  /**
   * All forms, oldest first. Change one as its host or guest would: `service.forms[0]!.status = "COMPLETED"`. The next
   * request that reads it sets its `updatedAt`.
   */
  readonly forms: FormV1[] = [];
  /** All requests, oldest first. */
  readonly requests: FakeRequest[] = [];
  readonly #failures: Record<"any" | FakeMethod, FakeFailure[]> = { any: [], GET: [], POST: [], PUT: [] };
  /** The last body of each form, by its id. */
  readonly #bodies = new Map<string, Body>();
  /** The original responses to replay, by body and by Idempotency-Key. */
  readonly #byBody = new Map<string, FormV1>();
  readonly #byKey = new Map<string, { body: string; original: FormV1 }>();
  /** The forms as they were last read or written, by id. */
  readonly #noted = new Map<string, { content: string; updatedAt: string }>();
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
          for (const form of forms) this.#noteChange(form);
          return this.#send(200, selectPage("forms", forms, search));
        case "GET forms/id":
          return this.#send(200, this.#noteChange(find(forms, id)));
        case "GET listings":
          return this.#send(200, selectPage("listings", this.listings, search));
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
    this.forms.push(this.#noteChange(form));
    this.#bodies.set(form.id, body);
    return { ...form };
  }

  /** What is not sent keeps its value, and a write-only field that is null too. */
  #update(forms: readonly FormV1[], id: string, { cancelled, ...body }: Body, sent: string[]): FetchResponse {
    const form = this.#noteChange(find(forms, id));
    const listing = find(this.listings, body.listingId);
    checkStatus(form, cancelled === true);
    if (cancelled) form.status = CANCELLED;
    else {
      checkRules(listing, body, form);
      const before: Record<string, unknown> = { ...this.#bodies.get(form.id), ...form };
      const isKept = (name: string) => !sent.includes(name) || (!(name in NEW_FORM) && body[name] === null);
      const kept = Object.keys(body).filter(isKept);
      const after = { ...body, ...Object.fromEntries(kept.map((name) => [name, before[name] ?? null])) };
      this.#bodies.set(form.id, after);
      Object.assign(form, stored(after));
    }
    return this.#send(200, this.#noteChange(form));
  }

  /** Sets `updatedAt` if the form, also as the program has set it, differs from when it was last noted. */
  #noteChange(form: FormV1): FormV1 {
    const content = contentOf(form);
    const last = this.#noted.get(form.id);
    if (last && last.content !== content && last.updatedAt === form.updatedAt) {
      // Later in any case, as it is if there is a network.
      form.updatedAt = new Date(Math.max(Date.now(), Date.parse(form.updatedAt) + 1)).toISOString();
    }
    this.#noted.set(form.id, { content, updatedAt: form.updatedAt });
    return form;
  }
}
