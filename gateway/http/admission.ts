import { AsyncResource } from "node:async_hooks";
import type { RequestHandler } from "express";
import type { Settings } from "../../server/config.js";
import type { HolderLimit } from "../../server/database/holder-limit.js";
import { readKey } from "./authenticate.js";
import { isAnswered } from "./deadline.js";

/** Begins a request. `isExcess`: it has waited too long, or too many of its key wait, so it should be rejected. */
type Begin = (isExcess: boolean) => void;

/** A request that has not begun. */
interface Arrival {
  readonly begin: Begin;
  /** In which it begins: otherwise it would run in that (the trace) of the request that scheduled the iteration. */
  readonly context: AsyncResource;
  /** When it has waited too long, by `performance.now()`. */
  readonly until: number;
}

/**
 * How long an iteration of the event loop begins waiting requests; it begins at least one. Counts what runs before a request's first `await`, about a
 * quarter of its work. With several per iteration, their statements and responses travel together.
 */
const BEGIN_MS = 0.25;
/** Requests of a key that may wait. As many can begin within the longest wait, so that of more, the others would be late. */
const MAX_WAITING = 500;
/** Further ones, of all keys, that may wait to be rejected. */
const MAX_EXCESS = 5_000;
/** Requests that one iteration of the event loop rejects first: those that arrived together are also late together. */
const MAX_REJECTED_AT_ONCE = 16;
/** The part of the timeout that a request may wait before it begins, so that it can then still wait for the database. */
const WAIT_SHARE = 1 / 3;

/**
 * Lets each key begin one request per iteration of the event loop at once. The others wait; each iteration begins waiting requests, one key
 * after the other, until BEGIN_MS has passed. So hundreds that arrive at once, or are rejected and sent again, leave each iteration
 * short for other keys. Beyond MAX_WAITING, further ones of a key are rejected, a few per iteration, up to MAX_EXCESS.
 */
export class Admission {
  /** The requests that wait, of each key with one that began in this iteration or waits. */
  readonly #queues = new Map<string, Arrival[]>();
  readonly #excess: Arrival[] = [];
  readonly #maxWaitMs: number;
  #waiting = 0;

  constructor({ DATABASE_CONNECT_TIMEOUT_MS }: Pick<Settings, "DATABASE_CONNECT_TIMEOUT_MS">) {
    this.#maxWaitMs = DATABASE_CONNECT_TIMEOUT_MS * WAIT_SHARE;
  }

  /** Requests that have not begun. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Calls `begin` now or in a later iteration of the event loop. */
  take(key: string, begin: Begin): void {
    const queue = this.#queues.get(key);
    const isExcess = queue !== undefined && queue.length >= MAX_WAITING;
    if (!queue) {
      if (this.#queues.size === 0 && this.#excess.length === 0) setImmediate(this.#admitNext);
      this.#queues.set(key, []);
      begin(false);
    } else if (isExcess && this.#excess.length >= MAX_EXCESS) begin(true);
    else {
      const until = performance.now() + this.#maxWaitMs;
      this.#waiting++;
      (isExcess ? this.#excess : queue).push({ begin, context: new AsyncResource("Arrival"), until });
    }
  }

  readonly #admitNext = (): void => {
    for (const [key, { length }] of this.#queues) if (length === 0) this.#queues.delete(key);
    const now = performance.now();
    const isLate = (arrival: Arrival | undefined) => arrival !== undefined && arrival.until < now;
    let rejections = MAX_REJECTED_AT_ONCE;
    for (; rejections > 0 && this.#excess.length > 0; rejections--) this.#begin(this.#excess.shift(), true);
    for (const queue of this.#queues.values()) {
      while (rejections > 0 && isLate(queue[0])) {
        rejections--;
        this.#begin(queue.shift(), true);
      }
    }
    // A key with more requests moves to the end, so this loop reaches it again.
    for (const [key, queue] of this.#queues) {
      // The newest if late ones are left, because it may be in time: otherwise all would be late, and none served.
      const next = isLate(queue[0]) ? queue.pop() : queue.shift();
      this.#queues.delete(key);
      if (queue.length > 0) this.#queues.set(key, queue);
      if (!next) continue;
      this.#begin(next, isLate(next));
      if (performance.now() - now > BEGIN_MS) break;
    }
    if (this.#queues.size > 0 || this.#excess.length > 0) setImmediate(this.#admitNext);
  };

  #begin(arrival: Arrival | undefined, isExcess: boolean): void {
    this.#waiting--;
    arrival?.context.runInAsyncScope(arrival.begin, undefined, isExcess);
  }
}

/** Lets the requests of each API key begin one by one, before anything is done for them. Those without a key begin at once. */
export const admit =
  (admission: Admission): RequestHandler =>
  (req, res, next) => {
    const key = readKey(req);
    if (key === undefined) return next();
    admission.take(key, (isExcess) => {
      res.locals.isExcess = isExcess;
      if (!isAnswered(res)) next();
    });
  };

/** Rejects a request that waited too long, or while too many of its key waited. It does not count against the rate limit. */
export const rejectExcess =
  (limit: HolderLimit): RequestHandler =>
  (_req, res, next) => {
    if (res.locals.isExcess) throw limit.rejection();
    next();
  };
