import pg from "pg";
import { connectionOf } from "../../prisma/connection.js";
import { withOptions } from "../../prisma/session.js";
import type { Settings } from "../config.js";
import { waitAtMost } from "../timeout.js";
import { verifyConnection } from "./primary.js";

export type DbSettings = Pick<
  Settings,
  | "DATABASE_URL"
  | "DATABASE_PREPARED"
  | "DATABASE_POOL_SIZE"
  | "DATABASE_CONNECT_TIMEOUT_MS"
  | "DATABASE_STATEMENT_TIMEOUT_MS"
  | "DATABASE_LOCK_TIMEOUT_MS"
>;

/** How long a transaction may be idle, in statement timeouts. */
const IDLE_STATEMENTS = 4;

/** Settings required in every session. If DATABASE_PREPARED is false, they must be stored with the role. */
export const sessionSettings = (settings: DbSettings) => ({
  // Prisma's adapter writes and reads instants without an offset.
  TimeZone: "UTC",
  // Generic plans are the same for every holder, and tested. Custom plans depend on statistics and can be very slow.
  plan_cache_mode: "force_generic_plan",
  // Generic plans expect more rows than most statements read. Compiling such a plan takes longer than running it.
  jit: "off",
  statement_timeout: `${settings.DATABASE_STATEMENT_TIMEOUT_MS}`,
  lock_timeout: `${settings.DATABASE_LOCK_TIMEOUT_MS}`,
  idle_in_transaction_session_timeout: `${settings.DATABASE_STATEMENT_TIMEOUT_MS * IDLE_STATEMENTS}`,
});

export interface Connections {
  pool: pg.Pool;
  /** Closes all connections and resolves once they have ended. */
  end(): Promise<void>;
}

interface PoolOptions {
  name: string;
  /** Maximum number of connections. */
  max: number;
  /** Close a connection that has received nothing for this long while in use. */
  frozenAfterMs: number;
  /** Called when a connection is lost. */
  onError?: ((error: NodeJS.ErrnoException) => void) | undefined;
  /** Accepts or rejects a new connection. Default: only one to a primary is accepted. */
  verify?: (client: pg.PoolClient, done: (error?: Error) => void) => void;
}

/** Opens a pool whose sessions have the service's settings. Throws if DATABASE_URL is not set. */
export function openPool(settings: DbSettings, options: PoolOptions): Connections {
  const { DATABASE_URL: url, DATABASE_PREPARED } = settings;
  if (!url) throw new Error("DATABASE_URL is not set.");
  const pool = new pg.Pool({
    Client: ConnectingClient,
    ...(DATABASE_PREPARED ? withOptions(url, { ...sessionSettings(settings), DateStyle: "ISO" }) : connectionOf(url)),
    verify: options.verify ?? verifyConnection(DATABASE_PREPARED ? undefined : DATE_SETTINGS),
    application_name: options.name,
    max: options.max,
    connectionTimeoutMillis: settings.DATABASE_CONNECT_TIMEOUT_MS,
    // Connections stay open. Otherwise those that only one key holder's burst uses are closed 10 s later, and the next burst
    // makes others wait for new ones, which first have to prepare every statement.
    idleTimeoutMillis: 0,
    keepAlive: true,
    pipeline: true,
  });
  // Without listeners, losing a connection would crash the process. The pool reports idle connections; one that is lost
  // while being checked out rejects its next statement.
  pool.on("error", options.onError ?? (() => {}));
  pool.on("connect", (client) => client.on("error", () => {}));
  return { pool, end: endOf(pool, closeFrozenConnections(pool, options.frozenAfterMs)) };
}

/**
 * A client that reports Postgres' refusal to connect as FATAL. Refusals always are, but `severity` is in the language of the
 * server, and their SQLSTATEs also occur in failed statements.
 */
class ConnectingClient extends pg.Client {
  override connect(): Promise<pg.Client>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
    if (!callback) return super.connect();
    super.connect((error: Error) => {
      if (error instanceof pg.DatabaseError) error.severity = "FATAL";
      callback(error);
    });
    return undefined;
  }
}

// PgBouncer restores each client's time zone, but may have learned it from a session opened before the role had the
// settings. With another time zone, instants would silently be stored wrong.
const DATE_SETTINGS = "SET TimeZone TO 'UTC'; SET DateStyle TO ISO";

const SWEEP_MS = 250;

/** State of a connection in use at the last sweep. */
interface Progress {
  bytesRead: number;
  since: number;
}

/**
 * Closes connections in use that have received nothing for `limitMs`: if the server is frozen or the network drops packets,
 * Postgres's own timeouts never arrive. Replaces pg's `query_timeout`, whose timer per query keeps each result in memory
 * until a major GC.
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
    // This process was suspended or busy: there may be unread results.
    const isLate = now - last > 2 * SWEEP_MS;
    last = now;
    for (const [client, seen] of inUse) {
      const bytesRead = bytesReadBy(client);
      if (isLate || bytesRead !== seen.bytesRead) inUse.set(client, { bytesRead, since: now });
      // Destroy the socket: ending the client would wait for its pending statements.
      else if (now - seen.since > limitMs) client.connection.stream.destroy();
    }
  }, SWEEP_MS);
  sweep.unref();
  return { stop: () => clearInterval(sweep) };
}

const bytesReadBy = ({ connection }: pg.Client): number =>
  "bytesRead" in connection.stream ? Number(connection.stream.bytesRead) : 0;

/** A frozen server would never close its connections. */
const END_TIMEOUT_MS = 2_000;

/** Ends a pool and waits for its connections to close; `Pool.end` itself does not wait. */
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
