import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { PrismaPg } from "@prisma/adapter-pg";
import pg from "pg";
import { PrismaClient } from "../../prisma/client/client.js";
import { classify, databaseFailure, type Failure, type StopSignal } from "./failures.js";
import { type DbSettings, openPool } from "./pool.js";
import { checkPrimary } from "./primary.js";

/** Values that pg can always serialize: when COMMIT is sent behind a statement, the statement may fail only in Postgres. */
export type SqlValue = string | number | bigint | boolean | null | undefined | Uint8Array | readonly SqlValue[];

/**
 * Runs prepared SQL; `name` identifies the text. Instants are read as ISO 8601 text with milliseconds, in UTC. Statements
 * of one transaction that are sent without awaiting each other are pipelined and run in the order they were sent.
 */
export interface Sql {
  query<Row extends object>(name: string, text: string, values: SqlValue[]): Promise<Row[]>;
}

/** A transaction of prepared SQL. */
export interface SqlTransaction extends Sql {
  /**
   * Sends COMMIT right behind the statements of `work`, which saves a round trip, and returns the results of `work`. If one of
   * them fails in Postgres, COMMIT rolls back. No statement may follow: each must be sent before the first await in `work`.
   * Without this call, COMMIT is sent when the transaction's work has resolved.
   */
  commit<Work extends unknown[]>(...work: Work): Promise<{ [Index in keyof Work]: Awaited<Work[Index]> }>;
}

/** Access to the database: prepared SQL, and Prisma's client on the same pool. */
export interface Db extends Sql {
  /** Contains the password. */
  url: string;
  prisma: PrismaClient;
  pool: pg.Pool;
  /**
   * Runs `work` in a READ COMMITTED transaction. Retries it from the start after a conflict. After `signal` aborts, no
   * statement is sent, not even COMMIT, and it rejects with the signal's reason. Statements that were already sent complete.
   * The first must not write (see `inTransaction`).
   */
  sqlTransaction<Result>(work: (tx: SqlTransaction) => Promise<Result>, signal?: StopSignal): Promise<Result>;
  /** Like `sqlTransaction`, on its own connection, for operator calls that take longer than a request may. */
  longTransaction<Result>(work: (tx: Sql) => Promise<Result>): Promise<Result>;
  close(): Promise<void>;
}

const MAX_ATTEMPTS = 4;
/** Grace period after the statement timeout before a server counts as frozen. */
const FROZEN_GRACE_MS = 500;
const LONG_STATEMENT_MS = 600_000;
const LONG_LOCK_MS = 30_000;

/** Called when a statement is sent. Returns a function that is called when the statement has ended. */
export type ObserveStatement = (text: string) => (error?: unknown) => void;

export interface DbHooks {
  /** Called when a connection is lost. */
  onError?: (error: NodeJS.ErrnoException) => void;
  /** Observes prepared SQL, but not statements of Prisma's client. */
  observe?: ObserveStatement | undefined;
  /** Called when a prepared statement or an attempt at a transaction fails. */
  onFailure?: ((failure: Failure) => void) | undefined;
}

export function openDb(settings: DbSettings, { onError, onFailure, observe }: DbHooks = {}): Db {
  const { DATABASE_URL: url = "", DATABASE_PREPARED: prepared } = settings;
  const { pool, end } = openPool(settings, {
    name: "guest-forms",
    max: settings.DATABASE_POOL_SIZE,
    frozenAfterMs: settings.DATABASE_STATEMENT_TIMEOUT_MS + FROZEN_GRACE_MS,
    onError,
  });
  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool, prepared ? { statementNameGenerator: ({ sql }) => statementName(sql) } : {}),
  });
  const report = (error: unknown) => {
    const failure = databaseFailure(error);
    if (failure) onFailure?.(failure);
  };
  const retrying = <Result>(attempt: () => Promise<Result>) => retryConflicts(attempt, report);
  return {
    url,
    prisma,
    pool,
    ...sqlOver(pool, { prepared, observe, onFailure: report }),
    sqlTransaction: (work, signal) =>
      retrying(async () => {
        signal?.throwIfAborted();
        return inTransaction(await pool.connect(), { prepared, signal, observe }, work);
      }),
    longTransaction: (work) => retrying(() => onOwnConnection(settings, work)),
    async close() {
      await prisma.$disconnect();
      await end();
    },
  };
}

// Explicit because the role may have another default.
const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";

/** Names a statement of Prisma's client, so that Postgres plans it once per connection. */
const statementName = (sql: string) => createHash("sha256").update(sql).digest("base64url").slice(0, 32);

/** Prepared SQL on a pool or a connection. */
// `pool.query` instead of connect, query and release, which keep each result in memory until a major GC.
export const sqlOver = (on: pg.Pool | pg.ClientBase, { prepared, signal, observe, onFailure }: SqlOptions): Sql => ({
  async query<Row extends object>(name: string, text: string, values: SqlValue[]) {
    signal?.throwIfAborted();
    const statement = { ...(prepared ? { name, text } : { text: checkPrimary(text) }), values, types: TYPES };
    let onEnd: ReturnType<ObserveStatement> | undefined;
    try {
      onEnd = observe?.(text);
      const { rows } = await (on instanceof pg.Pool ? on.query<Row>(statement) : send(on, statement));
      onEnd?.();
      return rows;
    } catch (error) {
      onEnd?.(error);
      onFailure?.(error);
      throw error;
    }
  },
});

interface SqlOptions {
  prepared: boolean;
  signal?: StopSignal | undefined;
  observe?: ObserveStatement | undefined;
  onFailure?: (error: unknown) => void;
}

const TYPES: pg.CustomTypesConfig = {
  getTypeParser: (type, format) =>
    type === pg.types.builtins.TIMESTAMPTZ && format !== "binary" ? instantOf : pg.types.getTypeParser(type, format),
};

/** Converts Postgres's `2026-11-21 10:15:30.12+00` to ISO 8601 without the cost of a Date. */
function instantOf(text: string): string {
  if (text.length > 26 || text[10] !== " " || !text.endsWith("+00")) return new Date(text).toISOString();
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${text.slice(20, -3).padEnd(3, "0")}Z`;
}

/**
 * Runs `work` between BEGIN and COMMIT. BEGIN is pipelined with the first statements of `work`, so those must not write: if
 * BEGIN fails, they run outside a transaction. Once a failure is known, nothing but ROLLBACK is sent.
 */
async function inTransaction<Result>(
  client: pg.PoolClient,
  options: SqlOptions,
  work: (tx: SqlTransaction) => Promise<Result>,
): Promise<Result> {
  const { signal } = options;
  // Only the first failure is the cause: the statements pipelined behind it fail as a consequence.
  let failure: { error: unknown } | undefined;
  const onFailure = (error: unknown) => {
    failure ??= { error };
  };
  const begun = send(client, BEGIN).catch(onFailure);
  let ended: Promise<unknown> | undefined;
  const throwIfAborted = () => {
    if (failure) throw failure.error;
    if (ended) throw new Error("COMMIT has already been sent");
    signal?.throwIfAborted();
  };
  const sendCommit = async () => {
    throwIfAborted();
    ended = send(client, "COMMIT");
    await ended;
  };
  const commit: SqlTransaction["commit"] = async (...work) => (await Promise.all([Promise.all(work), sendCommit()]))[0];
  let broken: Error | undefined;
  try {
    const sql = sqlOver(client, { ...options, signal: { throwIfAborted }, onFailure });
    const result = await work({ ...sql, commit });
    await begun;
    await (ended ?? sendCommit());
    if (failure) throw failure.error;
    return result;
  } catch (error) {
    // A COMMIT that was sent has ended the transaction, by a rollback if a statement failed. If COMMIT itself failed, the
    // connection is closed.
    await (ended ?? client.query("ROLLBACK")).catch((reason: Error) => {
      broken = reason;
    });
    throw failure?.error ?? error;
  } finally {
    client.release(broken);
  }
}

/** Sends all statements of this event-loop iteration in one system call. */
function send(client: pg.ClientBase, statement: string | pg.QueryConfig): Promise<pg.QueryResult> {
  if (client instanceof pg.Client) {
    const { stream } = client.connection;
    stream.cork();
    process.nextTick(() => stream.uncork());
  }
  return client.query(statement);
}

// Local to the transaction, so that it also works behind a pooler.
const LONG_LIMITS = `SELECT set_config('statement_timeout', '${LONG_STATEMENT_MS}', true),
  set_config('lock_timeout', '${LONG_LOCK_MS}', true)`;

async function onOwnConnection<Result>(settings: DbSettings, work: (tx: Sql) => Promise<Result>): Promise<Result> {
  const { pool, end } = openPool(settings, {
    name: "guest-forms operator",
    max: 1,
    frozenAfterMs: LONG_STATEMENT_MS + FROZEN_GRACE_MS,
  });
  try {
    return await inTransaction(await pool.connect(), { prepared: settings.DATABASE_PREPARED }, async (tx) => {
      await tx.query("long-limits", LONG_LIMITS, []);
      return work(tx);
    });
  } finally {
    await end();
  }
}

const MAX_RETRY_PAUSE_MS = 20;

async function retryConflicts<Result>(
  attempt: () => Promise<Result>,
  onFailure: (error: unknown) => void,
): Promise<Result> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      onFailure(error);
      if (tries === MAX_ATTEMPTS || classify(error) !== "conflict") throw error;
      // Jitter, so that the conflicting transactions do not collide again.
      await sleep(Math.random() * MAX_RETRY_PAUSE_MS * tries);
    }
  }
}
