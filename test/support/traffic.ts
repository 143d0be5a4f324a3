import { randomUUID } from "node:crypto";
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import { isBrokenConnection, type RequestOptions, sendRequest, type TimedResponse } from "./http-client.js";
import { countValues } from "./statistics.js";

/** Relative frequency of each kind of request. */
export interface RequestMix {
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
  /** Returns a number from 0 to below 1. */
  random: () => number;
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
  status: number;
  /** `performance.now()`. */
  sentAt: number;
  receivedAt: number;
}

/** A request is not sent if those of this time are still in flight: the machine cannot keep up. */
const MAX_IN_FLIGHT_SECONDS = 3;

/**
 * Clients that send requests at a constant rate without waiting for responses, and record what was acknowledged. Each
 * create has an Idempotency-Key. A failed create is retried with the same key.
 */
export class Traffic {
  readonly samples: ResponseSample[] = [];
  readonly creates: SentCreate[] = [];
  /** Responses that violate a guarantee. */
  readonly violations: string[] = [];
  /** Requests whose connection broke, if that is expected. */
  connectionErrors = 0;
  /** `performance.now()` of each request that was sent, except further pages of a list. */
  readonly #sentAt: number[] = [];
  readonly #options: TrafficOptions;
  readonly #acknowledged: SentCreate[] = [];
  #failed: SentCreate[] = [];
  /** Bodies of updates without a response, which may still take effect. */
  readonly #unconfirmed = new Set<FormBody>();
  #agents: Agent[];
  #isStopped = false;
  #loop: Promise<void> = Promise.resolve();
  readonly #inFlight = new Set<Promise<unknown>>();

  constructor(options: TrafficOptions) {
    this.#options = options;
    this.#agents = options.urls.map(newAgent);
  }

  start(): void {
    this.#isStopped = false;
    this.#loop = this.#run();
  }

  /** Stops sending, and waits for requests in flight. `start` resumes. */
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

  /** Requests per second that were sent in an interval, at times of `performance.now()`. */
  sentPerSecond(from: number, to: number): number {
    return (1_000 * this.#sentAt.filter((at) => at >= from && at < to).length) / (to - from);
  }

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
      this.#sentAt.push(performance.now());
      const request: Promise<unknown> = this.#sendRandom().finally(() => this.#inFlight.delete(request));
      this.#inFlight.add(request);
    }
  }

  #sendRandom(): Promise<unknown> {
    const create = this.#pick(this.#acknowledged);
    switch (this.#pickKind()) {
      case "create":
        return this.#send(this.#failed.shift() ?? this.#newCreate());
      case "repeat":
        return create ? this.#repeat(create) : this.#send(this.#newCreate());
      case "update":
        return create && !create.updates.isInFlight ? this.#update(create) : this.#list();
      case "list":
        return this.#list();
      case "fetch":
        return create ? this.#fetch(create) : this.#list();
      case "listing":
        return this.#request("listing", `/v1/listings/${this.#pick(this.#options.listingIds)}`);
    }
  }

  #pickKind(): keyof RequestMix {
    const kinds = Object.entries(this.#options.mix) as [keyof RequestMix, number][];
    const total = kinds.reduce((sum, [, weight]) => sum + weight, 0);
    let remaining = this.#options.random() * total;
    for (const [kind, weight] of kinds) {
      remaining -= weight;
      if (remaining < 0) return kind;
    }
    return "list";
  }

  #pick<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.#options.random() * items.length)];
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
      numberOfGuests: 1 + Math.floor(this.#options.random() * 6),
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
    const { id, publicId, createdAt } = response.json as FormV1;
    if (!isDeepStrictEqual([id, publicId, createdAt], [form?.id, form?.publicId, form?.createdAt]))
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
    const { urls, key, random, expectsConnectionErrors, ignoredFields } = this.#options;
    const gateway = Math.floor(random() * urls.length);
    const agent = this.#agents[gateway] as Agent;
    try {
      const response = await sendRequest(`${urls[gateway]}${path}`, key, { ...options, ignoredFields, agent });
      const { status, sentAt, receivedAt } = response;
      this.samples.push({ kind, gateway, status, sentAt, receivedAt });
      const problem = describeInvalidResponse(response);
      if (problem) this.violations.push(`${kind}: ${problem}`);
      return response;
    } catch (error) {
      const isExpected = isBrokenConnection(error) && expectsConnectionErrors;
      if (isExpected) this.connectionErrors++;
      else this.violations.push(`${kind}: ${(error as Error).message}`);
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
export function describeInvalidResponse({ status, headers, json }: TimedResponse): string | undefined {
  if (status === 200 || status === 201) return undefined;
  const { code, message, correlationId } = (json ?? {}) as Record<string, unknown>;
  const isEnvelope = code === "INTERNAL_ERROR" && typeof message === "string" && correlationId !== undefined;
  const hasRetryAfter = /^[1-9]\d*$/.test(String(headers["retry-after"]));
  if (status === 503 && isEnvelope && hasRetryAfter) return undefined;
  return `${status}, Retry-After ${headers["retry-after"]}: ${JSON.stringify(json)}`;
}

export const countStatuses = (samples: Pick<ResponseSample, "status">[]) =>
  countValues(samples.map(({ status }) => status));
