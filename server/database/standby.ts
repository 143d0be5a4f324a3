import { AsyncResource } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Settings } from "../config.js";
import { type Db, type DbHooks, type Sql, sqlOver } from "./db.js";
import { HolderLimit } from "./holder-limit.js";
import { openPool } from "./pool.js";
import { type Arrival, NeedsPrimary, type Read, type ReadHooks, type Reads } from "./reads.js";

// Reads from a standby, which nobody can tell from reads on the primary. A read learns, when it arrives, up to which position the
// primary has flushed its WAL: everything that was acknowledged to anyone is before it. It runs on a standby that has replayed this
// position, or else on the primary. So no clock and no session decides what a read sees, on any number of processes.

// Flushed, not written: a standby receives only that. On a standby, these functions are errors.
const ARRIVAL = `
  SELECT pg_current_wal_flush_lsn()::text AS position, now(), left(pg_walfile_name(pg_current_wal_flush_lsn()), 8) AS timeline`;

// After a failover, a standby may have replayed WAL that the new primary never had, and so a later position than any of its. What
// the new primary writes first, the mark of its timeline, cannot be on such a standby.
const MARK_TIMELINE = `
  WITH current AS (SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) AS id), added AS (
    INSERT INTO timelines (id) SELECT id FROM current ON CONFLICT DO NOTHING RETURNING mark::text
  )
  SELECT mark FROM added UNION ALL SELECT t.mark::text FROM timelines t JOIN current ON t.id = current.id`;

const REPLAYED = `
  SELECT pg_is_in_recovery() AS "isStandby", coalesce(pg_last_wal_replay_lsn() >= $1::pg_lsn
    AND (SELECT t.mark FROM timelines t ORDER BY t.id DESC LIMIT 1) = $2::uuid, false) AS "isReplayed"`;

/** Pauses before a read asks again whether its position has been replayed. */
const PAUSES_MS = [0, 1, 3];
const PROBE: Statement = ["probe", "SELECT", []];
const PROBE_PAUSE_MS = 250;
/** Failed probes until it is reported that the standby is not used: less is no news. */
const REPORTED_PROBES = 4;

interface Options extends ReadHooks {
  /** The primary, for positions. */
  primary: Sql;
  /** The primary, for the reads that it takes over, of which it runs few at a time. */
  takeover: Sql;
  pool: pg.Pool;
  /** Prepared SQL on a connection of the pool. */
  sqlOn: (client: pg.PoolClient) => Sql;
}

type Statement = Parameters<Sql["query"]>;

/** Reads from the standby that the pool leads to. */
class StandbyReads implements Reads {
  readonly #options: Options;
  /** Its own statements belong to no request, and so to the trace of none. */
  readonly #context = new AsyncResource("StandbyReads");
  /** By timeline. */
  readonly #marks = new Map<string, string>();
  #arrival: Promise<Arrival> | undefined;
  #isUsed = true;
  #isStopped = false;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Ends the probes. */
  stop(): void {
    this.#isStopped = true;
  }

  async run<Result>(work: Read<Result>): Promise<Result> {
    const { takeover, onRead } = this.#options;
    let cause: NeedsPrimary | undefined;
    if (this.#isUsed) {
      try {
        const arrival = await this.#arrive();
        const result = await work({ query: (...statement) => this.#query(arrival, statement) }, arrival);
        onRead("standby");
        return result;
      } catch (error) {
        if (!(error instanceof NeedsPrimary)) throw error;
        cause = error;
        if (cause.reason !== "recent") this.#cease();
      }
    }
    onRead(cause?.reason ?? "unused", cause);
    return work(takeover);
  }

  /** One query for all reads that arrive in this turn of the event loop. */
  #arrive(): Promise<Arrival> {
    const begin = () =>
      new Promise<Arrival>((resolve, reject) => {
        setImmediate(() => {
          this.#arrival = undefined;
          this.#readArrival().then(resolve, (error) => reject(new NeedsPrimary("failed", error)));
        });
      });
    this.#arrival ??= this.#context.runInAsyncScope(begin);
    return this.#arrival;
  }

  async #readArrival(): Promise<Arrival> {
    const { primary } = this.#options;
    const [row] = await primary.query<Omit<Arrival, "mark"> & { timeline: string }>("arrival", ARRIVAL, []);
    if (!row) throw new Error("the primary has no position");
    const { timeline, ...at } = row;
    const known = this.#marks.get(timeline);
    const mark = known ?? (await primary.query<{ mark: string }>("mark-timeline", MARK_TIMELINE, []))[0]?.mark;
    // Another process has just marked it.
    if (mark === undefined) return this.#readArrival();
    this.#marks.set(timeline, mark);
    return { ...at, mark };
  }

  /** Runs a statement on a standby that has replayed the position. Throws NeedsPrimary. */
  async #query<Row extends object>(arrival: Arrival, statement: Statement): Promise<Row[]> {
    for (const pauseMs of PAUSES_MS) {
      if (pauseMs > 0) await sleep(pauseMs);
      const rows = await this.#tryQuery<Row>(arrival, statement);
      if (rows) return rows;
    }
    throw new NeedsPrimary("behind");
  }

  /**
   * Sends a check and the statement together on one connection: the statement's snapshot is taken after the check. Returns
   * undefined if the position has not been replayed.
   */
  async #tryQuery<Row extends object>({ position, mark }: Arrival, statement: Statement): Promise<Row[] | undefined> {
    const { pool, sqlOn } = this.#options;
    try {
      const client = await pool.connect();
      const sql = sqlOn(client);
      const replayed = sql.query<{ isStandby: boolean; isReplayed: boolean }>("replayed", REPLAYED, [position, mark]);
      const results = [replayed, sql.query<Row>(...statement)] as const;
      const [check] = await Promise.allSettled(results);
      const isPromoted = check.status === "fulfilled" && !check.value[0]?.isStandby;
      // A new connection may lead to a standby again.
      client.release(isPromoted);
      if (isPromoted) throw new Error("the server is no standby");
      const [[state], rows] = await Promise.all(results);
      return state?.isReplayed ? rows : undefined;
    } catch (error) {
      throw new NeedsPrimary("failed", error);
    }
  }

  /** Uses the primary until a probe finds that the standby answers and keeps up. */
  #cease(): void {
    if (!this.#isUsed) return;
    this.#isUsed = false;
    void this.#context.runInAsyncScope(() => this.#probe());
  }

  async #probe(): Promise<void> {
    for (let failed = 0; !this.#isStopped; ) {
      try {
        await this.#query(await this.#arrive(), PROBE);
        this.#isUsed = true;
        if (failed >= REPORTED_PROBES) this.#options.onUse(true);
        return;
      } catch (error) {
        failed++;
        // A restored database may have others.
        this.#marks.clear();
        if (failed === REPORTED_PROBES) this.#options.onUse(false, error);
      }
      await sleep(PROBE_PAUSE_MS, undefined, { ref: false });
    }
  }
}

/** A standby that has not answered for this long is lost. Statements seldom take as long. */
const ANSWER_MS = 1_000;
const NOT_OF_A_REQUEST = new AbortController().signal;

/** Opens the standby of DATABASE_REPLICA_URL. Without one, reads run on the primary. */
export function openReads(
  settings: Settings,
  db: Db,
  hooks: DbHooks & ReadHooks,
): { reads: Reads; close(): Promise<void> } {
  const { DATABASE_REPLICA_URL: url, DATABASE_POOL_SIZE, DATABASE_CONNECT_TIMEOUT_MS } = settings;
  if (url === undefined) return { reads: { run: (work) => work(db) }, close: async () => {} };
  const { pool, end } = openPool(
    { ...settings, DATABASE_URL: url, DATABASE_CONNECT_TIMEOUT_MS: ANSWER_MS },
    {
      name: "guest-forms reads",
      max: DATABASE_POOL_SIZE,
      frozenAfterMs: ANSWER_MS,
      onError: hooks.onError,
      isPrimary: false,
    },
  );
  // Creates need the other connections to the primary.
  const takeover = new HolderLimit(Math.ceil(DATABASE_POOL_SIZE / 2), DATABASE_CONNECT_TIMEOUT_MS);
  const reads = new StandbyReads({
    ...hooks,
    pool,
    primary: db,
    takeover: takeover.bound(db, "reads", NOT_OF_A_REQUEST),
    sqlOn: (client) => sqlOver(client, { prepared: true, observe: hooks.observe }),
  });
  return {
    reads,
    close() {
      reads.stop();
      return end();
    },
  };
}
