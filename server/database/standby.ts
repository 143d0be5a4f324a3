import { AsyncResource } from "node:async_hooks";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Settings } from "../config.js";
import { waitAtMost } from "../timeout.js";
import { type Db, type DbHooks, type Sql, sqlOver } from "./db.js";
import type { StopSignal } from "./failures.js";
import { HolderLimit } from "./holder-limit.js";
import { openPool } from "./pool.js";
import { type Arrival, NeedsPrimary, type Read, type ReadHooks, type Reads } from "./reads.js";

// Reads from a standby, which nobody can tell from reads on the primary. A read learns, when it arrives, up to which position the
// primary has flushed its WAL: everything that was acknowledged to anyone is before it. It runs on a standby that has replayed this
// position, or else on the primary. So no clock and no session decides what a read sees, on any number of processes.

// Flushed, not written: a standby receives only that. On a standby, these functions are errors.
const ARRIVAL = `
  SELECT pg_current_wal_flush_lsn()::text AS position, now(), timeline, t.mark::text
  FROM left(pg_walfile_name(pg_current_wal_flush_lsn()), 8) AS timeline LEFT JOIN timelines t ON t.id = timeline`;

// After a failover, a standby may have replayed WAL that the new primary never had, and so a later position than any of its. The
// mark that the new primary writes for its timeline cannot be on such a standby.
const MARK_TIMELINE = `
  INSERT INTO timelines (id) VALUES (left(pg_walfile_name(pg_current_wal_lsn()), 8)) ON CONFLICT DO NOTHING`;

/** Marks the primary's timeline, unless it has a mark. */
export const markTimeline = (primary: Sql) => primary.query("mark-timeline", MARK_TIMELINE, []);

const REPLAYED = `
  SELECT pg_is_in_recovery() AS "isStandby", pg_last_wal_replay_lsn() >= $1::pg_lsn
    AND EXISTS (SELECT FROM timelines t WHERE t.id = $2::text AND t.mark = $3::uuid) AS "isReplayed"`;

// A database that was restored from a dump has the marks of the old one, but another of these.
const IDENTITY = `
  SELECT system_identifier::text || '/' || oid::text AS identity, current_setting('synchronous_commit') AS "commit"
  FROM pg_control_system(), pg_database WHERE datname = current_database()`;

/** After which time the primary is asked for its position again. One of its connections may hang. */
const MAX_ARRIVAL_SECONDS = 0.25;
/** How long a read waits for a position to be replayed. */
const MAX_WAIT_MS = 5;
/** How long a statement may run on the standby, and after which time there a read sends it no other. The rest is for the primary. */
const MAX_STANDBY_MS = 300;
/** pg-pool's message if no connection became free in time. That of a new connection that takes too long is another. */
const POOL_FULL = /^timeout exceeded when trying to connect/;
const PROBE: Statement = ["probe", "SELECT", []];
const MIN_PROBE_PAUSE_MS = 250;
const MAX_PROBE_PAUSE_MS = 2_000;
/** Failed probes until it is reported that the standby is not used: less is no news. */
const REPORTED_PROBES = 4;

interface Options extends ReadHooks {
  /** The primary, for positions. */
  primary: Sql;
  /** The primary, for the reads that it takes over, of which it runs few at a time. */
  takeover: (signal: StopSignal) => Sql;
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
  #current: Promise<Arrival> | undefined;
  #next: Promise<Arrival> | undefined;
  #isUsed = true;
  #isStopped = false;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Ends the probes. */
  stop(): void {
    this.#isStopped = true;
  }

  async run<Result>(work: Read<Result>, signal: StopSignal): Promise<Result> {
    const { takeover, onRead } = this.#options;
    let cause: NeedsPrimary | undefined;
    if (this.#isUsed) {
      const arrival = await this.#arrive();
      let until = Number.NaN;
      const query = <Row extends object>(...statement: Statement) => {
        until ||= performance.now() + MAX_STANDBY_MS;
        return this.#query<Row>(arrival, statement, until);
      };
      try {
        const result = await work({ query }, arrival);
        onRead("standby");
        return result;
      } catch (error) {
        if (!(error instanceof NeedsPrimary)) throw error;
        cause = error;
        if (cause.reason === "failed" || cause.reason === "behind") this.#cease();
      }
    }
    onRead(cause?.reason ?? "unused", cause);
    return work(takeover(signal));
  }

  /** One query for all reads that arrive while another is in flight, or in one turn of the event loop. */
  #arrive(): Promise<Arrival> {
    this.#next ??= this.#context.runInAsyncScope(async () => {
      await Promise.allSettled([this.#current, setImmediate()]);
      this.#next = undefined;
      this.#current = this.#readArrival();
      return this.#current;
    });
    return this.#next;
  }

  /** Asks once more on another connection if one breaks, or does not answer in time. */
  async #readArrival(): Promise<Arrival> {
    let arrival: Arrival | undefined;
    const first = this.#askForArrival().then((answer) => {
      arrival = answer;
      return answer;
    });
    await waitAtMost(MAX_ARRIVAL_SECONDS, first).catch(() => {});
    return arrival ?? Promise.any([first, this.#askForArrival()]);
  }

  async #askForArrival(): Promise<Arrival> {
    const [arrival] = await this.#options.primary.query<Arrival>("arrival", ARRIVAL, []);
    if (!arrival) throw new Error("the primary has no position");
    return arrival;
  }

  /** Runs a statement on a standby that has replayed the position. Throws NeedsPrimary, also for a statement sent after `until`. */
  async #query<Row extends object>(arrival: Arrival, statement: Statement, until = Infinity): Promise<Row[]> {
    if (!this.#isUsed && statement !== PROBE) throw new NeedsPrimary("unused");
    if (arrival.mark === null) throw new NeedsPrimary("failed", new Error("the timeline has no mark yet"));
    const run = () => {
      if (performance.now() > until) throw new NeedsPrimary("cancelled");
      return this.#tryQuery<Row>(arrival, statement);
    };
    let rows = await run();
    for (const giveUpAt = performance.now() + MAX_WAIT_MS; !rows && performance.now() < giveUpAt; ) {
      await sleep(1);
      if (await this.#tryQuery(arrival, PROBE)) rows = await run();
    }
    if (!rows) throw new NeedsPrimary("behind");
    return rows;
  }

  /**
   * Sends a check and the statement together on one connection: the statement's snapshot is taken after the check. Returns
   * undefined if the position has not been replayed.
   */
  async #tryQuery<Row extends object>(arrival: Arrival, statement: Statement): Promise<Row[] | undefined> {
    const { pool, sqlOn } = this.#options;
    const client = await pool.connect().catch((error) => {
      throw new NeedsPrimary(POOL_FULL.test(error.message) ? "cancelled" : "failed", error);
    });
    const sql = sqlOn(client);
    const { position, timeline, mark } = arrival;
    const [check, rows] = await Promise.allSettled([
      sql.query<{ isStandby: boolean; isReplayed: boolean }>("replayed", REPLAYED, [position, timeline, mark]),
      sql.query<Row>(...statement),
    ]);
    const state = check.status === "fulfilled" ? check.value[0] : undefined;
    // A new connection may lead to a standby again.
    client.release(state?.isStandby === false);
    if (check.status === "rejected") throw new NeedsPrimary("failed", check.reason);
    if (!state?.isStandby) throw new NeedsPrimary("failed", new Error("the server is no standby"));
    if (!state.isReplayed) return undefined;
    if (rows.status === "rejected") throw new NeedsPrimary("cancelled", rows.reason);
    return rows.value;
  }

  /** Uses the primary until a probe finds that the standby answers and keeps up. */
  #cease(): void {
    if (!this.#isUsed) return;
    this.#isUsed = false;
    void this.#context.runInAsyncScope(() => this.#probe());
  }

  async #probe(): Promise<void> {
    const { primary, onUse } = this.#options;
    for (let failed = 0, pauseMs = MIN_PROBE_PAUSE_MS; !this.#isStopped; ) {
      try {
        const arrival = await this.#arrive();
        if (arrival.mark === null) await markTimeline(primary);
        await this.#query(arrival.mark === null ? await this.#arrive() : arrival, PROBE);
        this.#isUsed = true;
        if (failed >= REPORTED_PROBES) onUse(true);
        return;
      } catch (error) {
        failed++;
        if (failed === REPORTED_PROBES) onUse(false, error);
      }
      await sleep(pauseMs, undefined, { ref: false });
      pauseMs = Math.min(1.5 * pauseMs, MAX_PROBE_PAUSE_MS);
    }
  }
}

/** Milliseconds after which a standby that does not answer is lost. */
const ANSWER_MS = 1_000;

const BUSY = "Too many reads are in progress. Retry this one.";

/** Opens the standby of DATABASE_REPLICA_URL. Without one, reads run on the primary. */
export function openReads(
  settings: Settings,
  db: Db,
  hooks: DbHooks & ReadHooks,
): { reads: Reads; close(): Promise<void> } {
  const { DATABASE_REPLICA_URL: url, DATABASE_POOL_SIZE: size, DATABASE_CONNECTIONS_PER_HOLDER: share } = settings;
  if (url === undefined) return { reads: { run: (work) => work(db) }, close: async () => {} };
  const verify = sameDatabaseAs(db);
  const { pool, end } = openPool(
    {
      ...settings,
      DATABASE_URL: url,
      DATABASE_CONNECT_TIMEOUT_MS: ANSWER_MS,
      DATABASE_STATEMENT_TIMEOUT_MS: Math.min(settings.DATABASE_STATEMENT_TIMEOUT_MS, MAX_STANDBY_MS),
    },
    { name: "guest-forms reads", max: size, frozenAfterMs: ANSWER_MS, onError: hooks.onError, verify },
  );
  // The others are for creates.
  const takeover = new HolderLimit(Math.max(size - share, 1), settings.DATABASE_CONNECT_TIMEOUT_MS, BUSY);
  const reads = new StandbyReads({
    ...hooks,
    pool,
    primary: db,
    takeover: (signal) => takeover.bound(db, "reads", signal),
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

/** Rejects a new connection to the standby of another database, and any if the primary acknowledges what it has not flushed. */
function sameDatabaseAs(db: Db) {
  const readIdentity = async (server: { query<Row>(text: string): Promise<{ rows: Row[] }> }) =>
    (await server.query<{ identity: string; commit: string }>(IDENTITY)).rows[0];
  return (client: pg.PoolClient, done: (error?: Error) => void) => {
    const compare = async () => {
      const [primary, standby] = await Promise.all([readIdentity(db.pool), readIdentity(client)]);
      if (primary?.commit === "off") throw new Error("synchronous_commit is off on the primary");
      if (!primary || primary.identity !== standby?.identity) throw new Error("it is no standby of this database");
    };
    compare().then(() => done(), done);
  };
}
