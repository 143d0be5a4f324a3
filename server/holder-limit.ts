import type { Db } from "./db.js";
import { type ServiceError, unavailable } from "./errors.js";
import type { StopSignal } from "./failures.js";

/** The database as the calls of one key holder use it. */
export type HolderDb = Pick<Db, "query" | "sqlTransaction">;

/** Work that waits for its turn. */
interface Waiter {
  /** When it has waited too long, by `performance.now()`. */
  until: number;
  start(): void;
  reject(error: ServiceError): void;
}

/** What one key holder has at the database, and the work that waits for its turn, in order of arrival. */
interface Holder {
  running: number;
  readonly waiting: Set<Waiter>;
  /** Whether `#expire` is scheduled. */
  isExpiring: boolean;
}

/** Work that may wait, per connection of a key holder. A key holder with more in the queue is rejected at once. */
const WAITING_PER_CONNECTION = 100;
/** Requests that begin in one turn of the event loop, of key holders whose other work waits. */
const ARRIVALS_PER_TURN = 4;
/** Work per key holder that is rejected in one turn of the event loop because it has waited too long. */
const TIMEOUTS_PER_TURN = 16;

/**
 * Bounds what each key holder has in flight at the database. Further statements and transactions of this key holder wait here,
 * where they hold no connection. So a key holder whose requests wait for a lock, or who sends many at once, leaves the other
 * connections to others, and has at most `max` places in the queue of the pool, which all key holders share.
 */
export class HolderLimit {
  readonly #max: number;
  readonly #timeoutMs: number;
  readonly #holders = new Map<string, Holder>();
  readonly #arrivals: { holderId: string; request: () => void }[] = [];
  /** Number of `#arrivals` by key holder. */
  readonly #arriving = new Map<string, number>();
  #waiting = 0;

  /** Called when work is rejected because it has waited too long, or because too much is waiting. */
  onRejected: () => void = () => {};

  /** `max`: statements and transactions per key holder. `timeoutMs`: how long one may wait for its turn. */
  constructor(max: number, timeoutMs: number) {
    this.#max = max;
    this.#timeoutMs = timeoutMs;
  }

  /** Statements and transactions that wait for their turn. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Begins a request of this key holder: at once, or in a later turn of the event loop if other work of this key holder waits,
   * so that requests that arrive by the hundred block nobody else meanwhile. Throws a 503 if so much waits that the request
   * would only time out.
   */
  begin(holderId: string, request: () => void): void {
    const waiting = this.#holders.get(holderId)?.waiting.size ?? 0;
    const arriving = this.#arriving.get(holderId) ?? 0;
    this.#assertRoom(waiting + arriving);
    if (waiting + arriving === 0) {
      request();
      return;
    }
    this.#arriving.set(holderId, arriving + 1);
    if (this.#arrivals.push({ holderId, request }) === 1) setImmediate(this.#beginArrivals);
  }

  readonly #beginArrivals = (): void => {
    for (const { holderId, request } of this.#arrivals.splice(0, ARRIVALS_PER_TURN)) {
      const others = (this.#arriving.get(holderId) ?? 1) - 1;
      if (others > 0) this.#arriving.set(holderId, others);
      else this.#arriving.delete(holderId);
      request();
    }
    if (this.#arrivals.length > 0) setImmediate(this.#beginArrivals);
  };

  #assertRoom(waiting: number): void {
    if (waiting >= this.#max * WAITING_PER_CONNECTION) throw this.#rejection();
  }

  /** Returns `db` for the work of one key holder. After `signal` aborts, no work is started. */
  bound(db: HolderDb, holderId: string, signal: StopSignal): HolderDb {
    return {
      query: (name, text, values) => this.#run(holderId, signal, () => db.query(name, text, values)),
      sqlTransaction: (work, stop) => this.#run(holderId, signal, () => db.sqlTransaction(work, stop)),
    };
  }

  async #run<Result>(holderId: string, signal: StopSignal, work: () => Promise<Result>): Promise<Result> {
    let holder = this.#holders.get(holderId);
    if (!holder) {
      holder = { running: 0, waiting: new Set(), isExpiring: false };
      this.#holders.set(holderId, holder);
    }
    if (holder.running < this.#max) holder.running++;
    else {
      this.#assertRoom(holder.waiting.size);
      await this.#waitForTurn(holder);
    }
    try {
      signal.throwIfAborted();
      return await work();
    } finally {
      this.#passTurn(holderId, holder);
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
   * Rejects what has waited too long, and schedules itself until nothing waits. A few per turn of the event loop, because
   * requests that arrived together also time out together.
   */
  readonly #expire = (holder: Holder): void => {
    const now = performance.now();
    let remaining = TIMEOUTS_PER_TURN;
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
      waiter.reject(this.#rejection());
    }
    holder.isExpiring = false;
  };

  #rejection(): ServiceError {
    this.onRejected();
    return unavailable({
      message: "Too many of your requests are in progress. Send fewer at a time, and retry this one.",
    });
  }

  #passTurn(holderId: string, holder: Holder): void {
    const [next] = holder.waiting;
    if (next) {
      holder.waiting.delete(next);
      next.start();
    } else if (--holder.running === 0) this.#holders.delete(holderId);
  }
}
