import { randomUUID } from "node:crypto";
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import { afterFile } from "./after-file.js";
import { isBrokenConnection, type RequestOptions, sendRequest, type TimedResponse } from "./http-client.js";
import { countValues, seededRandom } from "./statistics.js";

/** Relative frequency of each kind of request, as whole numbers. */
interface RequestMix {
  create: number;
  repeat: number;
  update: number;
  /** Reads up to three pages. */
  list: number;
  fetch: number;
  listing: number;
}

export interface TrafficOptions {
  /** Base URLs of the gateways. Each request goes to a random one. */
  urls: string[];
  key: string;
  listingIds: string[];
  perSecond: number;
  mix: RequestMix;
  /** Of the order of requests. */
  seed: number;
  /** True if the test kills gateways or closes connections. Otherwise a connection error is a violation. */
  expectsConnectionErrors?: boolean;
  /** Fields that only some of the gateways return. */
  ignoredFields?: readonly string[] | undefined;
}

/** A create, its outcome, and the updates of its form. */
export interface SentCreate {
  /** Position in `creates`. */
  index: number;
  key: string;
  body: FormBody;
  /** The form in the 201 response. */
  form?: FormV1;
  updates: {
    sent: number;
    acknowledged: number;
    isInFlight: boolean;
    /** Possible current bodies: of the last acknowledged update, and of every update without a response. */
    possibleBodies: FormBody[];
  };
}

/** One response. */
export interface ResponseSample {
  kind: keyof RequestMix;
  /** Index of the gateway in `urls`. */
  gateway: number;
  /** 0 if the connection broke. */
  status: number;
  /** `performance.now()`. */
  sentAt: number;
  receivedAt: number;
}

/** A request is not sent if those of this time are still in flight: the machine cannot keep up. */
const MAX_IN_FLIGHT_SECONDS = 3;

/**
 * Clients that send requests at a constant rate without waiting for responses, until `stop`, and record what was
 * acknowledged. Each create has an Idempotency-Key. A failed create is retried with the same key.
 */
export class Traffic {
  readonly samples: ResponseSample[] = [];
  readonly creates: SentCreate[] = [];
  /** Responses that violate a guarantee. */
  readonly violations: string[] = [];
  /** Requests that were sent, except further pages of a list. */
  sent = 0;
  readonly #options: TrafficOptions;
  readonly #random: () => number;
  /** Each kind as often as its weight. */
  readonly #kinds: (keyof RequestMix)[];
  readonly #acknowledged: SentCreate[] = [];
  #failed: SentCreate[] = [];
  /** Bodies of updates without a response, which may still take effect. */
  readonly #unconfirmed = new Set<FormBody>();
  #agents: Agent[];
  #isStopped = false;
  readonly #loop: Promise<void>;
  readonly #inFlight = new Set<Promise<unknown>>();

  constructor(options: TrafficOptions) {
    this.#options = options;
    this.#random = seededRandom(options.seed);
    const weights = Object.entries(options.mix) as [keyof RequestMix, number][];
    this.#kinds = weights.flatMap(([kind, weight]) => Array<keyof RequestMix>(weight).fill(kind));
    this.#agents = options.urls.map(newAgent);
    afterFile(() => this.closeConnections());
    this.#loop = this.#run();
  }

  /** Stops sending, and waits for requests in flight. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#loop;
    await Promise.all(this.#inFlight);
  }

  /** Retries failed creates until all are acknowledged; throws after a minute. */
  async retryUnacknowledged(): Promise<void> {
    const until = performance.now() + 60_000;
    while (this.#failed.length > 0) {
      if (performance.now() > until) throw new Error(`${this.#failed.length} creates were never acknowledged`);
      const batch = this.#failed.splice(0, 20);
      await Promise.all(batch.map((create) => this.#send(create)));
    }
  }

  /**
   * Returns when the last of the gateways first responded with success after this time, to a request of any or one of these
   * kinds; infinity if one has not.
   */
  servedAgainAt(since: number, kinds?: readonly (keyof RequestMix)[]): number {
    const served = this.samples.filter(
      (sample) => sample.receivedAt > since && isSuccess(sample) && (kinds?.includes(sample.kind) ?? true),
    );
    const first = (gateway: number) => served.find((sample) => sample.gateway === gateway)?.receivedAt;
    return Math.max(...this.#options.urls.map((_, gateway) => first(gateway) ?? Number.POSITIVE_INFINITY));
  }

  /** The responses to requests that were sent in this interval. */
  sentBetween = (from: number, to = Number.POSITIVE_INFINITY): ResponseSample[] =>
    this.samples.filter(({ sentAt }) => sentAt >= from && sentAt < to);

  /** Closes all connections of the clients, also those with requests in flight. Later requests open new ones. */
  closeConnections(): void {
    const old = this.#agents;
    this.#agents = this.#options.urls.map(newAgent);
    for (const agent of old) agent.destroy();
  }

  async #run(): Promise<void> {
    const intervalMs = 1_000 / this.#options.perSecond;
    for (let dueAt = performance.now(); !this.#isStopped; dueAt += intervalMs) {
      const earlyMs = dueAt - performance.now();
      if (earlyMs > 1) await sleep(earlyMs);
      if (this.#inFlight.size >= MAX_IN_FLIGHT_SECONDS * this.#options.perSecond) continue;
      this.sent++;
      const request: Promise<unknown> = this.#sendRandom().finally(() => this.#inFlight.delete(request));
      this.#inFlight.add(request);
    }
  }

  #sendRandom(): Promise<unknown> {
    const create = this.#pick(this.#acknowledged);
    switch (this.#pick(this.#kinds)) {
      case "create":
        return this.#send(this.#failed.shift() ?? this.#newCreate());
      case "repeat":
        return create ? this.#repeat(create) : this.#send(this.#newCreate());
      case "update":
        return create && !create.updates.isInFlight ? this.#update(create) : this.#list();
      case "fetch":
        return create ? this.#fetch(create) : this.#list();
      case "listing":
        return this.#request("listing", `/v1/listings/${this.#pick(this.#options.listingIds)}`);
      default:
        return this.#list();
    }
  }

  #pick<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.#random() * items.length)];
  }

  #newCreate(): SentCreate {
    const index = this.creates.length;
    const body = this.#newBody(index);
    // Every third create notifies a guest.
    if (index % 3 === 0) body.guestEmail = `guest${index}@example.com`;
    const updates = { sent: 0, acknowledged: 0, isInFlight: false, possibleBodies: [body] };
    const create: SentCreate = { index, key: randomUUID(), body, updates };
    this.creates.push(create);
    return create;
  }

  /** Returns unique dates: a different hour per create, a different minute per update. */
  #newBody(hour: number, minute = 0): FormBody {
    const begin = Date.UTC(2028, 0, 1, hour, minute);
    return {
      listingId: this.#pick(this.#options.listingIds) ?? "",
      checkInDate: new Date(begin).toISOString(),
      checkOutDate: new Date(begin + 86_400_000).toISOString(),
      numberOfGuests: 1 + Math.floor(this.#random() * 6),
    };
  }

  async #send(create: SentCreate): Promise<void> {
    const response = await this.#request("create", "/v1/forms", post(create));
    if (response?.status === 201) {
      create.form = response.json as FormV1;
      this.#acknowledged.push(create);
    } else this.#failed.push(create);
  }

  async #repeat(create: SentCreate): Promise<void> {
    const response = await this.#request("repeat", "/v1/forms", post(create));
    if (response?.status !== 201) return;
    const isSame = isDeepStrictEqual(response.json, create.form);
    if (!isSame || response.headers["idempotent-replayed"] !== "true")
      this.violations.push(`a replay returned another form than ${create.form?.id}`);
  }

  async #update({ index, form, updates }: SentCreate): Promise<void> {
    const body = this.#newBody(index, 1 + updates.sent);
    updates.isInFlight = true;
    updates.sent++;
    updates.possibleBodies.push(body);
    const response = await this.#request("update", `/v1/forms/${form?.id}`, { method: "PUT", body });
    if (response?.status === 200) {
      updates.acknowledged++;
      updates.possibleBodies = updates.possibleBodies.filter((one) => one === body || this.#unconfirmed.has(one));
    } else this.#unconfirmed.add(body);
    updates.isInFlight = false;
  }

  async #fetch({ form }: SentCreate): Promise<void> {
    const response = await this.#request("fetch", `/v1/forms/${form?.id}`);
    if (response?.status !== 200) return;
    const constant = ({ id, publicId, createdAt }: Partial<FormV1> = {}) => `${id} ${publicId} ${createdAt}`;
    if (constant(response.json as FormV1) !== constant(form))
      this.violations.push(`the form ${form?.id} changed its id, publicId or createdAt`);
  }

  async #list(): Promise<void> {
    let cursor: string | null = null;
    let last = "";
    for (let page = 0; page < 3; page++) {
      const after: string = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
      const response = await this.#request("list", `/v1/forms?limit=20${after}`);
      if (response?.status !== 200) return;
      const { items, nextCursor } = response.json as { items: FormV1[]; nextCursor: string | null };
      for (const { createdAt, id } of items) {
        if (`${createdAt} ${id}` <= last) this.violations.push(`the list is out of order at ${id}`);
        last = `${createdAt} ${id}`;
      }
      cursor = nextCursor;
      if (!cursor) return;
    }
  }

  async #request(kind: keyof RequestMix, path: string, options: RequestOptions = {}) {
    const { urls, key, expectsConnectionErrors, ignoredFields } = this.#options;
    const gateway = Math.floor(this.#random() * urls.length);
    const agent = this.#agents[gateway] as Agent;
    const startedAt = performance.now();
    try {
      const response = await sendRequest(`${urls[gateway]}${path}`, key, { ...options, ignoredFields, agent });
      const { status, sentAt, receivedAt } = response;
      this.samples.push({ kind, gateway, status, sentAt, receivedAt });
      const problem = describeInvalidResponse(response);
      if (problem) this.violations.push(`${kind}: ${problem}`);
      return response;
    } catch (error) {
      this.samples.push({ kind, gateway, status: 0, sentAt: startedAt, receivedAt: performance.now() });
      if (!expectsConnectionErrors || !isBrokenConnection(error))
        this.violations.push(`${kind}: ${(error as Error).message}`);
      // Backoff, because a stopped gateway rejects connections immediately.
      await sleep(100);
      return undefined;
    }
  }
}

const newAgent = () => new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

const post = ({ key, body }: SentCreate): RequestOptions => ({
  method: "POST",
  body,
  headers: { "Idempotency-Key": key },
});

/** Returns what is wrong with a response: a failure must be a 503 error envelope with Retry-After. */
function describeInvalidResponse({ status, headers, json }: TimedResponse): string | undefined {
  if (status === 200 || status === 201) return undefined;
  const { code, message, correlationId } = (json ?? {}) as Record<string, unknown>;
  const isEnvelope = code === "INTERNAL_ERROR" && typeof message === "string" && correlationId !== undefined;
  const hasRetryAfter = /^[1-9]\d*$/.test(String(headers["retry-after"]));
  if (status === 503 && isEnvelope && hasRetryAfter) return undefined;
  return `${status}, Retry-After ${headers["retry-after"]}: ${JSON.stringify(json)}`;
}

export const isSuccess = ({ status }: Pick<ResponseSample, "status">) => status === 200 || status === 201;

export const countStatuses = (samples: Pick<ResponseSample, "status">[]) =>
  countValues(samples.map(({ status }) => status));
