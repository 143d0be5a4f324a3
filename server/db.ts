import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { PrismaPg } from "@prisma/adapter-pg";
import pg from "pg";
import { type Prisma, PrismaClient } from "../prisma/client/client.js";
import { withOptions } from "../prisma/session-options.js";
import { classify, databaseFailure, type Failure, type StopSignal } from "./failures.js";
import { closeFrozenConnections } from "./frozen-connections.js";
import { waitAtMost } from "./timeout.js";

/** A transaction of Prisma's typed client. */
export type Transaction = Prisma.TransactionClient;

export interface DbSettings {
  /** postgres:// address. */
  url: string;
  /**
   * Whether connections keep prepared statements and settings. False behind a pooler in transaction mode: there the
   * role has to have the settings (`sessionSettings`).
   */
  prepared?: boolean;
  /** Maximum number of connections. */
  poolSize: number;
  /** Milliseconds to wait for a connection, new or free. */
  connectTimeout: number;
  /** Milliseconds a statement may run. */
  statementTimeout: number;
  /** Milliseconds a statement may wait for a lock. */
  lockTimeout: number;
}

/**
 * Runs prepared SQL; `name` identifies the text. Instants are read as ISO 8601 text with milliseconds, in UTC. Statements
 * of one transaction that are sent without awaiting each other travel together and run in the order they were sent.
 */
export interface Sql {
  query<Row extends object>(name: string, text: string, values: unknown[]): Promise<Row[]>;
}

/** Runs SQL in a transaction of either kind. */
export const queryIn = <Row extends object>(
  tx: Sql | Transaction,
  name: string,
  text: string,
  values: unknown[],
): Promise<Row[]> =>
  "query" in tx ? tx.query<Row>(name, text, values) : tx.$queryRawUnsafe<Row[]>(text, ...values);

/** Access to the database: Prisma's client, and prepared SQL over the pool that Prisma's adapter uses. */
export interface Db extends Sql {
  /** Contains the password. */
  url: string;
  prisma: PrismaClient;
  pool: pg.Pool;
  /** Runs `work` in a transaction of Prisma's client, at READ COMMITTED, and again from the start after a conflict. */
  transaction<Result>(work: (tx: Transaction) => Promise<Result>): Promise<Result>;
  /**
   * The same in prepared SQL. No statement is sent after `signal` aborts, COMMIT neither: rejects with its reason. The
   * first statements must not write (`inTransaction`).
   */
  sqlTransaction<Result>(work: (tx: Sql) => Promise<Result>, signal?: StopSignal): Promise<Result>;
  /** The same on a connection of its own, for an operator's work that takes longer than a request may. */
  longTransaction<Result>(work: (tx: Sql) => Promise<Result>): Promise<Result>;
  close(): Promise<void>;
}

const MAX_ATTEMPTS = 4;
/** A transaction may take as long as so many statements at their timeout. */
const TRANSACTION_STATEMENTS = 4;
/** How long after its statement timeout a server counts as frozen. */
const FROZEN_GRACE_MS = 500;
const LONG_STATEMENT_MS = 600_000;
const LONG_LOCK_MS = 30_000;

/** Settings that every session must have. */
export const sessionSettings = ({ statementTimeout, lockTimeout }: DbSettings) => ({
  // Prisma's adapter writes and reads instants without an offset.
  TimeZone: "UTC",
  // A plan made for the scope of one holder can be very slow for the next.
  plan_cache_mode: "force_generic_plan",
  statement_timeout: `${statementTimeout}`,
  lock_timeout: `${lockTimeout}`,
  idle_in_transaction_session_timeout: `${statementTimeout * TRANSACTION_STATEMENTS}`,
});

/** Called when a statement is sent; the function it returns is called when the statement has ended. */
export type ObserveStatement = (text: string) => (error?: unknown) => void;

export interface DbHooks {
  /** A connection was lost. */
  onError?: (error: Error) => void;
  /** For prepared SQL. Statements of Prisma's client are not reported. */
  observe?: ObserveStatement | undefined;
  /** Of a prepared statement, or of an attempt at a transaction of either kind. */
  onFailure?: ((failure: Failure) => void) | undefined;
}

export function openDb(
  settings: DbSettings,
  { onError = () => {}, onFailure = () => {}, observe }: DbHooks = {},
): Db {
  const { url, prepared = true } = settings;
  const connection: pg.PoolConfig = {
    ...(prepared
      ? withOptions(url, { ...sessionSettings(settings), DateStyle: "ISO" })
      : { connectionString: url, verify: setStyle }),
    connectionTimeoutMillis: settings.connectTimeout,
    keepAlive: true,
    pipeline: true,
  };
  const pool = new pg.Pool({ ...connection, max: settings.poolSize, application_name: "guest-forms" });
  // Without listeners, losing a connection would end the process: the pool reports idle ones, and one that is lost on
  // its way to the next request rejects that request's statement.
  pool.on("error", onError);
  pool.on("connect", (client) => client.on("error", () => {}));
  const end = endOf(pool, closeFrozenConnections(pool, settings.statementTimeout + FROZEN_GRACE_MS));
  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool, prepared ? { statementNameGenerator: ({ sql }) => statementName(sql) } : {}),
    transactionOptions: {
      maxWait: settings.connectTimeout,
      timeout: settings.statementTimeout * TRANSACTION_STATEMENTS,
    },
  });
  const report = (error: unknown): never => {
    const failure = databaseFailure(error);
    if (failure) onFailure(failure);
    throw error;
  };
  const sql = sqlOver(pool, { prepared, observe });
  const retrying = <Result>(attempt: () => Promise<Result>) => retryConflicts(() => attempt().catch(report));
  return {
    url,
    prisma,
    pool,
    query: <Row extends object>(...statement: Parameters<Sql["query"]>) =>
      sql.query<Row>(...statement).catch(report),
    transaction: (work) => retrying(() => prisma.$transaction(work, READ_COMMITTED)),
    sqlTransaction: (work, signal) =>
      retrying(async () => {
        signal?.throwIfAborted();
        return inTransaction(await pool.connect(), { prepared, signal, observe }, work);
      }),
    longTransaction: (work) => retrying(() => onOwnConnection(connection, prepared, work)),
    async close() {
      await prisma.$disconnect();
      await end();
    },
  };
}

// Explicit, because a role may have another default.
const READ_COMMITTED = { isolationLevel: "ReadCommitted" } as const;
const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";

// PgBouncer restores the client's own time zone in every session, but remembers the one of sessions opened before the
// role had ours. With another one, instants would be stored wrong without an error.
const setStyle = (client: pg.PoolClient, done: (error?: Error) => void) =>
  void client.query("SET TimeZone TO 'UTC'; SET DateStyle TO ISO").then(() => done(), done);

const names = new Map<string, string>();
const MAX_NAMES = 500;

// Postgres plans a named statement once per connection instead of at every call.
function statementName(sql: string): string {
  const known = names.get(sql);
  if (known) return known;
  const name = createHash("sha256").update(sql).digest("base64url").slice(0, 32);
  if (names.size < MAX_NAMES) names.set(sql, name);
  return name;
}

// `pool.query` rather than connect, query and release: those keep each answer in memory until a major collection.
const sqlOver = (on: pg.Pool | pg.ClientBase, { prepared, signal, observe }: SqlOptions): Sql => ({
  async query<Row extends object>(name: string, text: string, values: unknown[]) {
    signal?.throwIfAborted();
    const statement = { ...(prepared && { name }), text, values, types: TYPES };
    const onEnd = observe?.(text);
    try {
      const { rows } = await (on instanceof pg.Pool ? on.query<Row>(statement) : send(on, statement));
      onEnd?.();
      return rows;
    } catch (error) {
      onEnd?.(error);
      throw error;
    }
  },
});

interface SqlOptions {
  prepared: boolean;
  signal?: StopSignal | undefined;
  observe?: ObserveStatement | undefined;
}

const TYPES: pg.CustomTypesConfig = {
  getTypeParser: (type, format) =>
    type === pg.types.builtins.TIMESTAMPTZ && format !== "binary"
      ? instantOf
      : pg.types.getTypeParser(type, format),
};

/** `2026-11-21 10:15:30.12+00`, Postgres's text of an instant in UTC, as ISO 8601, without the cost of a Date. */
function instantOf(text: string): string {
  if (text.length > 26 || text[10] !== " " || !text.endsWith("+00")) return new Date(text).toISOString();
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${text.slice(20, -3).padEnd(3, "0")}Z`;
}

/**
 * Runs `work` between BEGIN and COMMIT. BEGIN travels with the first statements of `work`, so those must not write: if
 * BEGIN fails, they run outside of a transaction, and no further one is sent.
 */
async function inTransaction<Result>(
  client: pg.PoolClient,
  options: SqlOptions,
  work: (tx: Sql) => Promise<Result>,
): Promise<Result> {
  const { signal } = options;
  let failure: { error: unknown } | undefined;
  const begun = send(client, BEGIN).catch((error: unknown) => {
    failure = { error };
  });
  const throwIfAborted = () => {
    if (failure) throw failure.error;
    signal?.throwIfAborted();
  };
  const working = work(sqlOver(client, { ...options, signal: { throwIfAborted } }));
  let broken: Error | undefined;
  try {
    const result = await working;
    await begun;
    throwIfAborted();
    await client.query("COMMIT");
    return result;
  } catch (error) {
    await client.query("ROLLBACK").catch((reason: Error) => {
      broken = reason;
    });
    throw failure?.error ?? error;
  } finally {
    client.release(broken);
  }
}

/** Sends what is sent in this turn of the event loop in one system call instead of one each. */
function send(client: pg.ClientBase, statement: string | pg.QueryConfig): Promise<pg.QueryResult> {
  if (client instanceof pg.Client) {
    const { stream } = client.connection;
    stream.cork();
    process.nextTick(() => stream.uncork());
  }
  return client.query(statement);
}

// For this transaction only, so that it also works behind a pooler.
const LONG_LIMITS = `SELECT set_config('statement_timeout', '${LONG_STATEMENT_MS}', true),
  set_config('lock_timeout', '${LONG_LOCK_MS}', true)`;

async function onOwnConnection<Result>(
  settings: pg.PoolConfig,
  prepared: boolean,
  work: (tx: Sql) => Promise<Result>,
): Promise<Result> {
  const own = new pg.Pool({ ...settings, max: 1, application_name: "guest-forms operator" });
  own.on("error", () => {});
  own.on("connect", (client) => client.on("error", () => {}));
  const end = endOf(own, closeFrozenConnections(own, LONG_STATEMENT_MS + FROZEN_GRACE_MS));
  try {
    return await inTransaction(await own.connect(), { prepared }, async (tx) => {
      await tx.query("long-limits", LONG_LIMITS, []);
      return work(tx);
    });
  } finally {
    await end();
  }
}

/** Milliseconds that connections may take to end; a frozen server would take for ever. */
const END_TIMEOUT_MS = 2_000;

/** Ends a pool and resolves once its connections have ended: the pool's own promise resolves when they are told to. */
function endOf(pool: pg.Pool, guard: { stop(): void }): () => Promise<void> {
  const open = new Set<pg.PoolClient>();
  pool.on("connect", (client) => open.add(client));
  pool.on("remove", (client) => open.delete(client));
  return async () => {
    const ended = new Promise<void>((resolve) => pool.on("remove", () => open.size === 0 && resolve()));
    await pool.end();
    if (open.size > 0) await waitAtMost(END_TIMEOUT_MS / 1000, ended);
    guard.stop();
    for (const client of open) if (client instanceof pg.Client) client.connection.stream.destroy();
  };
}

const PAUSE_MS = 20;

async function retryConflicts<Result>(attempt: () => Promise<Result>): Promise<Result> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      if (tries === MAX_ATTEMPTS || classify(error) !== "conflict") throw error;
      // A random pause, so that the transactions in conflict do not meet again.
      await sleep(Math.random() * PAUSE_MS * tries);
    }
  }
}
