import { randomRetryAfter, type ServiceError, unavailable } from "../errors.js";
import type { Db } from "./db.js";
import type { StopSignal } from "./failures.js";
import type { Reads } from "./reads.js";

/** The database as the calls of one key holder use it. */
export type HolderDb = Pick<Db, "query" | "sqlTransaction">;

/** Work that waits for its turn. */
interface Waiter {
  /** When it has waited too long, by `performance.now()`. */
  until: number;
  start(): void;
  reject(error: ServiceError): void;
}

/** What one key holder has in this process. */
interface Holder {
  readonly id: string;
  /** Statements and transactions at the database. */
  running: number;
  /** Work that waits for its turn at the database, in order of arrival. */
  readonly waiting: Set<Waiter>;
  /** Whether `#expire` is scheduled. */
  isExpiring: boolean;
}

const BUSY = "Too many of your requests are in progress. Send fewer at a time, and retry this one.";
/** Work that may wait per connection of a key holder. */
const WAITING_PER_CONNECTION = 100;
/** Requests that are rejected in one iteration of the event loop: those that arrived together also time out together. */
const REJECTIONS_PER_ITERATION = 16;

/**
 * Bounds what each key holder has in flight at the database. Further statements and transactions of this key holder wait here,
 * where they hold no connection. So a key holder whose requests wait for a lock, or who sends many at once, leaves the other
 * connections to others, and has at most `max` places in the queue of the pool, which all key holders share.
 */
export class HolderLimit {
  readonly #message: string;
  readonly #max: number;
  readonly #maxWaiting: number;
  readonly #timeoutMs: number;
  readonly #holders = new Map<string, Holder>();
  /** By `Retry-After`. Made once each, because the stack of an error takes a good part of the time of a rejection. */
  readonly #rejections = new Map<number, ServiceError>();
  #waiting = 0;

  /** Called when work is rejected because it has waited too long, or because too much is waiting. */
  onRejected: () => void = () => {};

  /**
   * `max`: statements and transactions per key holder. `timeoutMs`: how long one may wait for its turn. `message`: of a rejection.
   */
  constructor(max: number, timeoutMs: number, message = BUSY) {
    this.#message = message;
    this.#max = max;
    this.#maxWaiting = max * WAITING_PER_CONNECTION;
    this.#timeoutMs = timeoutMs;
  }

  /** Statements and transactions that wait for their turn. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Key holders with work in this process. */
  get holders(): number {
    return this.#holders.size;
  }

  /** Returns `db` for the work of one key holder. After `signal` aborts, no work is started. */
  bound(db: HolderDb, holderId: string, signal: StopSignal): HolderDb {
    return {
      query: (name, text, values) => this.#run(holderId, signal, () => db.query(name, text, values)),
      sqlTransaction: (work, stop) => this.#run(holderId, signal, () => db.sqlTransaction(work, stop)),
    };
  }

  /** The same for reads that may run on a standby. They learn their position before their turn. */
  boundReads(reads: Reads, holderId: string, signal: StopSignal): Reads {
    return {
      run: (work) =>
        reads.run(
          (sql, arrival) =>
            work({ query: (...statement) => this.#run(holderId, signal, () => sql.query(...statement)) }, arrival),
          signal,
        ),
    };
  }

  async #run<Result>(holderId: string, signal: StopSignal, work: () => Promise<Result>): Promise<Result> {
    let holder = this.#holders.get(holderId);
    if (!holder) {
      holder = { id: holderId, running: 0, waiting: new Set(), isExpiring: false };
      this.#holders.set(holderId, holder);
    }
    if (holder.running < this.#max) holder.running++;
    else if (holder.waiting.size < this.#maxWaiting) await this.#waitForTurn(holder);
    else throw this.rejection();
    try {
      signal.throwIfAborted();
      return await work();
    } finally {
      this.#passTurn(holder);
    }
  }

  /** Resolves when another work of the key holder has passed its turn on. Rejects with a 503 after the timeout. */
  #waitForTurn(holder: Holder): Promise<void> {
    this.#waiting++;
    return new Promise<void>((resolve, reject) => {
      holder.waiting.add({ until: performance.now() + this.#timeoutMs, start: resolve, reject });
      if (holder.isExpiring) return;
      holder.isExpiring = true;
      this.#expire(holder);
    }).finally(() => this.#waiting--);
  }

  /**
   * Rejects what has waited too long, a few per iteration of the event loop, and schedules itself until nothing waits.
   */
  readonly #expire = (holder: Holder): void => {
    const now = performance.now();
    let remaining = REJECTIONS_PER_ITERATION;
    for (const waiter of holder.waiting) {
      if (waiter.until > now) {
        setTimeout(this.#expire, waiter.until - now, holder).unref();
        return;
      }
      if (remaining-- === 0) {
        setImmediate(this.#expire, holder);
        return;
      }
      holder.waiting.delete(waiter);
      waiter.reject(this.rejection());
    }
    holder.isExpiring = false;
  };

  /** Counts a rejection, and returns its 503. */
  rejection(): ServiceError {
    this.onRejected();
    const retryAfter = randomRetryAfter();
    const error = this.#rejections.get(retryAfter) ?? unavailable({ message: this.#message, retryAfter });
    this.#rejections.set(retryAfter, error);
    return error;
  }

  #passTurn(holder: Holder): void {
    const [next] = holder.waiting;
    if (next) {
      holder.waiting.delete(next);
      next.start();
      return;
    }
    holder.running--;
    if (holder.running === 0) this.#holders.delete(holder.id);
  }
}
