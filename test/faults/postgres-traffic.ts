import { randomUUID } from "node:crypto";
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import { type Answer, type Call, call } from "../fleet/client.js";

/** How often each kind of request is made, in relation to the others. */
export interface Mix {
  create: number;
  repeat: number;
  update: number;
  /** Up to three pages, one after the other. */
  list: number;
  fetch: number;
  listing: number;
}

export interface TrafficOptions {
  /** Base addresses of the gateways; each request goes to one at random. */
  urls: string[];
  key: string;
  listingIds: string[];
  perSecond: number;
  mix: Mix;
  /** From 0 to below 1. */
  random: () => number;
  /** Whether connections may break: where gateways are killed, but not where only what is behind them fails. */
  mayBreak?: boolean;
}

/** A create that was sent, and what became of it. */
export interface Entry {
  /** Its place among all. */
  index: number;
  key: string;
  body: FormBody;
  /** The acknowledged answer. */
  form?: FormV1;
  attempts: number;
  updates: {
    sent: number;
    acknowledged: number;
    isUnderWay: boolean;
    /** What the form may be now: as last acknowledged, or as any update says that nobody knows the end of. */
    possible: FormBody[];
  };
}

/** One answer. */
export interface Sample {
  kind: keyof Mix;
  gateway: number;
  status: number;
  /** As of `performance.now`. */
  sentAt: number;
  cameAt: number;
}

/** What a machine that cannot keep up is spared. */
const MAX_UNDER_WAY = 200;

/**
 * Clients that send requests at a steady rate, however slow the answers, and keep account of what was acknowledged.
 * Creates carry an Idempotency-Key, and one that failed is sent again with it.
 */
export class Traffic {
  readonly samples: Sample[] = [];
  readonly entries: Entry[] = [];
  /** What no client may meet with. */
  readonly violations: string[] = [];
  /** Connections that broke. */
  broken = 0;
  /** Requests not made, for too many were under way. */
  skipped = 0;
  readonly #options: TrafficOptions;
  readonly #known: Entry[] = [];
  #failed: Entry[] = [];
  /** Updates without an answer: they may take effect, even later. */
  readonly #unsure = new Set<FormBody>();
  #agents: Agent[];
  #stopped = false;
  #loop: Promise<void> = Promise.resolve();
  readonly #underWay = new Set<Promise<void>>();

  constructor(options: TrafficOptions) {
    this.#options = options;
    this.#agents = options.urls.map(newAgent);
  }

  start(): void {
    this.#stopped = false;
    this.#loop = this.#run();
  }

  /** Sends no more until it is started again, and lets what is under way end. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#loop;
    await Promise.all(this.#underWay);
  }

  /** Sends every create that was not acknowledged again until it is; throws where that takes too long. */
  async settle(patienceMs = 60_000): Promise<void> {
    const until = performance.now() + patienceMs;
    while (this.#failed.length > 0) {
      if (performance.now() > until) throw new Error(`${this.#failed.length} creates are never acknowledged`);
      const batch = this.#failed.splice(0, 20);
      await Promise.all(batch.map((entry) => this.#send(entry)));
    }
  }

  /** Ends all connections of the clients, in the middle of whatever they carry. */
  cut(): void {
    const old = this.#agents;
    this.#agents = this.#options.urls.map(newAgent);
    for (const agent of old) agent.destroy();
  }

  close(): void {
    for (const agent of this.#agents) agent.destroy();
  }

  async #run(): Promise<void> {
    const every = 1_000 / this.#options.perSecond;
    for (let due = performance.now(); !this.#stopped; due += every) {
      const early = due - performance.now();
      if (early > 1) await sleep(early);
      if (this.#underWay.size >= MAX_UNDER_WAY) {
        this.skipped++;
        continue;
      }
      const one: Promise<void> = this.#one().finally(() => this.#underWay.delete(one));
      this.#underWay.add(one);
    }
  }

  #one(): Promise<void> {
    const entry = this.#pick(this.#known);
    switch (this.#draw()) {
      case "create":
        return this.#send(this.#failed.shift() ?? this.#newEntry());
      case "repeat":
        return entry ? this.#repeat(entry) : this.#send(this.#newEntry());
      case "update":
        return entry && !entry.updates.isUnderWay ? this.#update(entry) : this.#list();
      case "list":
        return this.#list();
      case "fetch":
        return entry ? this.#fetch(entry) : this.#list();
      case "listing":
        return this.#listing();
    }
  }

  #draw(): keyof Mix {
    const kinds = Object.entries(this.#options.mix) as [keyof Mix, number][];
    const whole = kinds.reduce((sum, [, weight]) => sum + weight, 0);
    let at = this.#options.random() * whole;
    for (const [kind, weight] of kinds) {
      at -= weight;
      if (at < 0) return kind;
    }
    return "list";
  }

  #pick<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.#options.random() * items.length)];
  }

  #newEntry(): Entry {
    const index = this.entries.length;
    const body = this.#newBody(index);
    // One in three tells its guest.
    if (index % 3 === 0) body.guestEmail = `guest${index}@example.com`;
    const updates = { sent: 0, acknowledged: 0, isUnderWay: false, possible: [body] };
    const entry: Entry = { index, key: randomUUID(), body, attempts: 0, updates };
    this.entries.push(entry);
    return entry;
  }

  /** A stay that no other has: by the hour for creates, by the minute for updates. */
  #newBody(hour: number, minute = 0): FormBody {
    const begin = Date.UTC(2028, 0, 1, hour, minute);
    return {
      listingId: this.#pick(this.#options.listingIds) ?? "",
      checkInDate: new Date(begin).toISOString(),
      checkOutDate: new Date(begin + 86_400_000).toISOString(),
      numberOfGuests: 1 + Math.floor(this.#options.random() * 6),
    };
  }

  async #send(entry: Entry): Promise<void> {
    entry.attempts++;
    const answer = await this.#call("create", "/v1/forms", post(entry));
    if (answer?.status === 201) {
      entry.form = answer.json as FormV1;
      this.#known.push(entry);
    } else this.#failed.push(entry);
  }

  async #repeat(entry: Entry): Promise<void> {
    const answer = await this.#call("repeat", "/v1/forms", post(entry));
    if (answer?.status !== 201) return;
    const isSame = isDeepStrictEqual(answer.json, entry.form);
    if (!isSame || answer.headers["idempotent-replayed"] !== "true")
      this.violations.push(`a repeat was answered with another form than ${entry.form?.id}`);
  }

  async #update({ index, form, updates }: Entry): Promise<void> {
    const body = this.#newBody(index, 1 + updates.sent);
    updates.isUnderWay = true;
    updates.sent++;
    updates.possible.push(body);
    const answer = await this.#call("update", `/v1/forms/${form?.id}`, { method: "PUT", body });
    if (answer?.status === 200) {
      updates.acknowledged++;
      updates.possible = updates.possible.filter((one) => one === body || this.#unsure.has(one));
    } else this.#unsure.add(body);
    updates.isUnderWay = false;
  }

  async #fetch({ form }: Entry): Promise<void> {
    const answer = await this.#call("fetch", `/v1/forms/${form?.id}`);
    if (answer?.status !== 200) return;
    const { id, publicId, createdAt } = answer.json as FormV1;
    if (!isDeepStrictEqual([id, publicId, createdAt], [form?.id, form?.publicId, form?.createdAt]))
      this.violations.push(`the form ${form?.id} has become another`);
  }

  async #listing(): Promise<void> {
    await this.#call("listing", `/v1/listings/${this.#pick(this.#options.listingIds)}`);
  }

  async #list(): Promise<void> {
    let cursor: string | null = null;
    let last = "";
    for (let page = 0; page < 3; page++) {
      const after: string = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
      const answer = await this.#call("list", `/v1/forms?limit=20${after}`);
      if (answer?.status !== 200) return;
      const { items, nextCursor } = answer.json as { items: FormV1[]; nextCursor: string | null };
      for (const { createdAt, id } of items) {
        if (`${createdAt} ${id}` <= last) this.violations.push(`the list is out of order at ${id}`);
        last = `${createdAt} ${id}`;
      }
      cursor = nextCursor;
      if (!cursor) return;
    }
  }

  async #call(kind: keyof Mix, path: string, options: Call = {}): Promise<Answer | undefined> {
    const { urls, key, random, mayBreak } = this.#options;
    const gateway = Math.floor(random() * urls.length);
    const agent = this.#agents[gateway] as Agent;
    try {
      const answer = await call(`${urls[gateway]}${path}`, key, { ...options, agent });
      const { status, sentAt, cameAt } = answer;
      this.samples.push({ kind, gateway, status, sentAt, cameAt });
      const wrong = faultOf(answer);
      if (wrong) this.violations.push(`${kind}: ${wrong}`);
      return answer;
    } catch (error) {
      this.broken++;
      if (!mayBreak) this.violations.push(`${kind}: ${(error as Error).message}`);
      // A gateway that is away refuses at once.
      await sleep(100);
      return undefined;
    }
  }
}

const newAgent = () => new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

const post = ({ key, body }: Entry): Call => ({
  method: "POST",
  body,
  headers: { "Idempotency-Key": key },
});

/** What is wrong with an answer; a failure must be a 503 in the envelope that says when to try again. */
export function faultOf({ status, headers, json }: Answer): string | undefined {
  if (status === 200 || status === 201) return undefined;
  const { code, message, correlationId } = (json ?? {}) as Record<string, unknown>;
  const isEnvelope = code === "INTERNAL_ERROR" && typeof message === "string" && correlationId !== undefined;
  const isTimed = /^[1-9]\d*$/.test(String(headers["retry-after"]));
  if (status === 503 && isEnvelope && isTimed) return undefined;
  return `${status}, Retry-After ${headers["retry-after"]}: ${JSON.stringify(json)}`;
}

/** Milliseconds that the slowest of the answers took. */
export const slowestOf = (samples: Sample[]) =>
  samples.reduce((most, { sentAt, cameAt }) => Math.max(most, cameAt - sentAt), 0);

/** How often each status came. */
export function statuses(samples: Sample[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status } of samples) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

/** Numbers from 0 to below 1, the same ones for the same seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
