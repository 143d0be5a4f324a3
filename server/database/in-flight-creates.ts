import { AsyncResource } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { CREATING_FORM } from "../../prisma/advisory-locks.js";
import type { Sql } from "./db.js";
import { type StopSignal, Unavailable } from "./failures.js";
import { ON_PRIMARY } from "./primary.js";

// A create gets its `created_at` at the insert but becomes visible at the commit. Between the two, a reader could see a later
// form and get a cursor that skips the create forever. So each create holds a shared advisory lock from before its insert
// until it ends, and a page that ends in recent forms waits until those locks are released, unless its own snapshot shows
// that none was held. Acquiring one never blocks, so creates do not wait for readers.

/** SQL that marks the transaction as a create in flight. It also takes the transaction's id. */
export const MARK_IN_FLIGHT = `pg_advisory_xact_lock_shared(${CREATING_FORM}), pg_current_xact_id()`;

/**
 * SQL for a SELECT: true only if no transaction with an id, and so no create, was in flight when its snapshot was taken.
 * Ids from `xmax` on are not in the snapshot; `age` above 0 means that some of them are already assigned.
 */
export const NONE_IN_FLIGHT = `(
  SELECT pg_snapshot_xmin(s) = pg_snapshot_xmax(s) AND age(pg_snapshot_xmax(s)::xid) = 0
  FROM pg_current_snapshot() AS s)`;

const IN_FLIGHT = `
  SELECT virtualtransaction AS id FROM pg_locks
  WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint, objid::bigint) = (${CREATING_FORM}) AND ${ON_PRIMARY}`;

/** Longer than the resolution of `created_at`: inserts after this pause get a later time than every row seen before it. */
const TICK_MS = 2;
const MIN_PAUSE_MS = 3;
const MAX_PAUSE_MS = 50;
const MAX_WAIT_MS = 2_000;

/** A page that waits. */
interface Waiter {
  since: number;
  signal: StopSignal;
  /** The creates it still waits for; undefined until the first scan that began a tick after `since`. */
  awaited: string[] | undefined;
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * Waits for creates in flight. All pages of a process share one poller, because reading `pg_locks` blocks Postgres's lock
 * manager for a moment: if a commit hangs, it reads less often, however many pages wait.
 */
export class InFlightCreates {
  readonly #sql: Sql;
  readonly #waiters = new Set<Waiter>();
  /** Its scans belong to no page, and so to the trace of none. */
  readonly #context = new AsyncResource("InFlightCreates");
  #isPolling = false;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /**
   * Waits until every create that already has its `created_at` has committed or failed; later creates get a later time. Does
   * not rely on the database's clock, which may be set back. Throws Unavailable after MAX_WAIT_MS.
   */
  wait(signal: StopSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiters.add({ since: performance.now(), signal, awaited: undefined, resolve, reject });
      if (!this.#isPolling) void this.#context.runInAsyncScope(() => this.#poll());
    });
  }

  /** Scans until nobody waits. The pause grows while scans release no page, so it stays short while creates commit. */
  async #poll(): Promise<void> {
    this.#isPolling = true;
    for (let pauseMs = MIN_PAUSE_MS; this.#waiters.size > 0; ) {
      await sleep(pauseMs);
      const isProgress = await this.#scan();
      pauseMs = isProgress ? MIN_PAUSE_MS : Math.min(1.5 * pauseMs, MAX_PAUSE_MS);
    }
    this.#isPolling = false;
  }

  /** Reads the creates in flight, and ends the wait of each page that no longer needs to. Returns whether it released any. */
  async #scan(): Promise<boolean> {
    const began = performance.now();
    const pages = [...this.#waiters].filter(({ since }) => began - since >= TICK_MS);
    if (pages.length === 0) return true;
    let isProgress = false;
    const end = (page: Waiter, how: () => void) => {
      this.#waiters.delete(page);
      how();
    };
    try {
      const rows = await this.#sql.query<{ id: string }>("in-flight-creates", IN_FLIGHT, []);
      const inFlight = new Set(rows.map(({ id }) => id));
      for (const page of pages) {
        page.awaited = (page.awaited ?? [...inFlight]).filter((id) => inFlight.has(id));
        if (page.awaited.length > 0) continue;
        isProgress = true;
        end(page, page.resolve);
      }
    } catch (error) {
      for (const page of pages) end(page, () => page.reject(error));
    }
    // Those that have waited too long, or whose request has ended.
    for (const page of this.#waiters) {
      try {
        page.signal.throwIfAborted();
        if (performance.now() - page.since > MAX_WAIT_MS) throw new Unavailable("creates in flight take too long");
      } catch (error) {
        end(page, () => page.reject(error));
      }
    }
    return isProgress;
  }
}
