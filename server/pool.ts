import pg from "pg";
import { withOptions } from "../prisma/session-options.js";
import { waitAtMost } from "./timeout.js";

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
  connectTimeoutMs: number;
  /** Milliseconds a statement may run. */
  statementTimeoutMs: number;
  /** Milliseconds a statement may wait for a lock. */
  lockTimeoutMs: number;
}

/** A transaction may take as long as so many statements at their timeout. */
const TRANSACTION_STATEMENTS = 4;

/** Milliseconds a transaction may take. */
export const transactionTimeoutMs = ({ statementTimeoutMs }: DbSettings) =>
  statementTimeoutMs * TRANSACTION_STATEMENTS;

/** Settings that every session must have. */
export const sessionSettings = ({ statementTimeoutMs, lockTimeoutMs }: DbSettings) => ({
  // Prisma's adapter writes and reads instants without an offset.
  TimeZone: "UTC",
  // A plan made for the scope of one holder can be very slow for the next.
  plan_cache_mode: "force_generic_plan",
  statement_timeout: `${statementTimeoutMs}`,
  lock_timeout: `${lockTimeoutMs}`,
  idle_in_transaction_session_timeout: `${statementTimeoutMs * TRANSACTION_STATEMENTS}`,
});

/** Connections, and how to close all of them. */
export interface Connections {
  pool: pg.Pool;
  /** Resolves once the connections have ended. */
  end(): Promise<void>;
}

interface PoolOptions {
  name: string;
  /** Maximum number of connections. */
  max: number;
  /** A connection that has received nothing for this long while in use is frozen. */
  frozenAfterMs: number;
  /** A connection was lost. */
  onError?: ((error: Error) => void) | undefined;
}

/** Opens connections whose sessions have the service's settings. */
export function openPool(settings: DbSettings, options: PoolOptions): Connections {
  const { url, prepared = true } = settings;
  const pool = new pg.Pool({
    ...(prepared
      ? withOptions(url, { ...sessionSettings(settings), DateStyle: "ISO" })
      : { connectionString: url, verify: setDateSettings }),
    application_name: options.name,
    max: options.max,
    connectionTimeoutMillis: settings.connectTimeoutMs,
    keepAlive: true,
    pipeline: true,
  });
  // Without listeners, losing a connection would end the process: the pool reports idle ones, and one that is lost on
  // its way to the next request rejects that request's statement.
  pool.on("error", options.onError ?? (() => {}));
  pool.on("connect", (client) => client.on("error", () => {}));
  return { pool, end: endOf(pool, closeFrozenConnections(pool, options.frozenAfterMs)) };
}

// PgBouncer restores the client's own time zone in every session, but remembers the one of sessions opened before the
// role had ours. With another one, instants would be stored wrong without an error.
const setDateSettings = (client: pg.PoolClient, done: (error?: Error) => void) =>
  void client.query("SET TimeZone TO 'UTC'; SET DateStyle TO ISO").then(() => done(), done);

const SWEEP_MS = 250;

/** What the last sweep saw of a connection that is in use. */
interface Progress {
  bytesRead: number;
  since: number;
}

/**
 * Closes connections that are checked out of the pool and have received nothing for `limitMs`: the server is frozen or
 * the network drops everything, so Postgres's own timeouts never arrive. One sweep per process instead of pg's
 * `query_timeout`, whose timer per query keeps each answer in memory until a major garbage collection.
 */
function closeFrozenConnections(pool: pg.Pool, limitMs: number): { stop(): void } {
  const inUse = new Map<pg.Client, Progress>();
  pool.on("acquire", (client) => {
    if (client instanceof pg.Client) {
      inUse.set(client, { bytesRead: bytesReadBy(client), since: performance.now() });
    }
  });
  pool.on("release", (_error, client) => {
    if (client instanceof pg.Client) inUse.delete(client);
  });
  let last = performance.now();
  const sweep = setInterval(() => {
    const now = performance.now();
    // This process was suspended or busy: answers may have arrived that it has not read yet.
    const isLate = now - last > 2 * SWEEP_MS;
    last = now;
    for (const [client, seen] of inUse) {
      const bytesRead = bytesReadBy(client);
      if (isLate || bytesRead !== seen.bytesRead) inUse.set(client, { bytesRead, since: now });
      // The socket, because ending the client would wait for its pending statements first.
      else if (now - seen.since > limitMs) client.connection.stream.destroy();
    }
  }, SWEEP_MS);
  sweep.unref();
  return { stop: () => clearInterval(sweep) };
}

const bytesReadBy = ({ connection }: pg.Client): number =>
  "bytesRead" in connection.stream ? Number(connection.stream.bytesRead) : 0;

/** Milliseconds that connections may take to end; a frozen server would take for ever. */
const END_TIMEOUT_MS = 2_000;

/** Ends a pool and resolves once its connections have ended: the pool's own promise resolves when they are told to. */
function endOf(pool: pg.Pool, sweep: { stop(): void }): () => Promise<void> {
  const open = new Set<pg.PoolClient>();
  pool.on("connect", (client) => open.add(client));
  pool.on("remove", (client) => open.delete(client));
  return async () => {
    const ended = new Promise<void>((resolve) => pool.on("remove", () => open.size === 0 && resolve()));
    await pool.end();
    if (open.size > 0) await waitAtMost(END_TIMEOUT_MS / 1000, ended);
    sweep.stop();
    for (const client of open) if (client instanceof pg.Client) client.connection.stream.destroy();
  };
}
