import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { PrismaPg } from "@prisma/adapter-pg";
import pg from "pg";
import { type Prisma, PrismaClient } from "../prisma/client/client.js";
import { withOptions } from "../prisma/session-options.js";
import { factsOf } from "./error-facts.js";
import { ServiceError } from "./errors.js";

export type Transaction = Prisma.TransactionClient;

export interface DbSettings {
  /** postgres:// address. */
  url: string;
  /** The same database past a pooler; `url` where there is none. */
  directUrl?: string | undefined;
  /**
   * Whether a connection is a session, which keeps prepared statements and settings. Not so behind a pooler in
   * transaction mode: there the role has to have the settings (`sessionSettings`).
   */
  prepared?: boolean;
  /** Most connections at once. */
  poolSize: number;
  /** Milliseconds to wait for a connection, new or free. */
  connectTimeout: number;
  /** Milliseconds a statement may run. */
  statementTimeout: number;
  /** Milliseconds a statement may wait for a lock. */
  lockTimeout: number;
}

/** Runs SQL, prepared where that can be; `name` is one for each text. Instants come as the interface writes them. */
export interface Sql {
  query<Row extends object>(name: string, text: string, values: unknown[]): Promise<Row[]>;
}

/** Access to the database: Prisma's client, and prepared SQL over the pool that Prisma's adapter uses. */
export interface Db extends Sql {
  /** Where it is; carries the password. */
  url: string;
  /** Where what needs a session of its own connects; carries the password. */
  directUrl: string;
  /** Whether such a session can be had at `directUrl`. */
  hasSessions: boolean;
  prisma: PrismaClient;
  pool: pg.Pool;
  /**
   * Runs `work` in one transaction, again from its start where the database asks for that. Unavailable where it
   * `isOverdue` before it has begun.
   */
  transaction<Result>(work: (tx: Transaction) => Promise<Result>, isOverdue?: IsOverdue): Promise<Result>;
  /** The same in prepared SQL. */
  sqlTransaction<Result>(work: (tx: Sql) => Promise<Result>, isOverdue?: IsOverdue): Promise<Result>;
  /**
   * Runs `work`, each of its statements by itself, again where it fails with a conflict: one that the database
   * reports, or a `LostRace`. No statement begins once it `isOverdue`.
   */
  retrying<Result>(work: (sql: Sql) => Promise<Result>, isOverdue?: IsOverdue): Promise<Result>;
  close(): Promise<void>;
}

/** Whether nobody waits any longer for what is being done: it must not begin to change anything. */
export type IsOverdue = () => boolean;

const ATTEMPTS = 4;
/** pg gives up on a frozen server this long after Postgres itself should have given up on the statement. */
const GRACE_MS = 500;

/** What every session must have set. */
export const sessionSettings = ({ statementTimeout, lockTimeout }: DbSettings) => ({
  // The adapter writes and reads instants without an offset.
  TimeZone: "UTC",
  // A plan made for one holder's scope is a trap for the next one's.
  plan_cache_mode: "force_generic_plan",
  statement_timeout: `${statementTimeout}`,
  lock_timeout: `${lockTimeout}`,
  idle_in_transaction_session_timeout: `${statementTimeout * ATTEMPTS}`,
});

export function openDb(settings: DbSettings, onError: (error: Error) => void = () => {}): Db {
  const { url, directUrl = url, prepared = true } = settings;
  const pool = new pg.Pool({
    ...(prepared
      ? withOptions(url, { ...sessionSettings(settings), DateStyle: "ISO" })
      : { connectionString: url, verify: setStyle }),
    max: settings.poolSize,
    connectionTimeoutMillis: settings.connectTimeout,
    query_timeout: settings.statementTimeout + GRACE_MS,
    keepAlive: true,
    application_name: "guest-forms",
  });
  // Without a listener, a connection lost while idle would end the process; so would one that is lost as it passes to
  // the next in the queue, before whoever awaits it can listen: the next statement tells.
  pool.on("error", onError);
  pool.on("connect", (client) => {
    client.on("error", () => {});
    endWhenOverdue(client);
  });
  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool, prepared ? { statementNameGenerator: ({ sql }) => statementName(sql) } : {}),
    transactionOptions: {
      maxWait: settings.connectTimeout,
      timeout: settings.statementTimeout * ATTEMPTS,
    },
  });
  return {
    url,
    directUrl,
    hasSessions: prepared || directUrl !== url,
    prisma,
    pool,
    ...sqlOver(pool, prepared, never),
    transaction: (work, isOverdue = never) =>
      again(() =>
        prisma.$transaction((tx) => {
          demandTime(isOverdue);
          return work(tx);
        }),
      ),
    sqlTransaction: (work, isOverdue = never) => again(() => inTransaction(pool, prepared, isOverdue, work)),
    retrying: (work, isOverdue = never) => again(() => work(sqlOver(pool, prepared, isOverdue))),
    async close() {
      await prisma.$disconnect();
      await pool.end();
    },
  };
}

// PgBouncer sees to it that the client has its own time zone in every session, but remembers that of the sessions it
// opened before the role had ours. In another one, instants would be stored wrong without anyone noticing.
const setStyle = (client: pg.PoolClient, done: (error?: Error) => void) =>
  void client.query("SET TimeZone TO 'UTC'; SET DateStyle TO ISO").then(() => done(), done);

const OVERDUE = "Query read timeout";

/**
 * Ends a connection whose answer is overdue, as pg itself does not. What is sent on it would wait behind, a ROLLBACK
 * too: given up in its turn, it would leave the transaction open for whoever gets the connection next.
 */
function endWhenOverdue(client: pg.PoolClient): void {
  const query: (...given: unknown[]) => unknown = client.query.bind(client);
  client.query = (...given: unknown[]) => {
    const answer = query(...given);
    if (answer instanceof Promise) {
      answer.catch((error: Error) => {
        if (error.message === OVERDUE) void (client as unknown as pg.Client).end().catch(() => {});
      });
    }
    return answer as never;
  };
}

const names = new Map<string, string>();
const MOST_NAMES = 500;

// Named, a statement is planned once a connection rather than at every call.
function statementName(sql: string): string {
  const known = names.get(sql);
  if (known) return known;
  const name = createHash("sha256").update(sql).digest("base64url").slice(0, 32);
  if (names.size < MOST_NAMES) names.set(sql, name);
  return name;
}

const never: IsOverdue = () => false;

/** Throws Unavailable where the time is up. */
export function demandTime(isOverdue: IsOverdue): void {
  if (isOverdue()) throw new Unavailable("the request's time was up before it began");
}

/** Runs `work` on a connection of the pool, which outlives any refusal of the database but no silence. */
async function withClient<Result>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<Result>) {
  const client = await pool.connect();
  let isLost = false;
  try {
    return await work(client);
  } catch (error) {
    isLost =
      error instanceof pg.DatabaseError
        ? FATAL.test(error.severity ?? "")
        : classify(error) === "unavailable" && !(error instanceof Unavailable);
    throw error;
  } finally {
    client.release(isLost);
  }
}

const FATAL = /FATAL|PANIC/;

function sqlOver(on: pg.Pool | pg.PoolClient, prepared: boolean, isOverdue: IsOverdue): Sql {
  return {
    async query<Row extends object>(name: string, text: string, values: unknown[]) {
      const statement = { ...(prepared && { name }), text, values, types: TYPES };
      const run = (client: pg.PoolClient) => {
        demandTime(isOverdue);
        return client.query<Row>(statement);
      };
      const { rows } = await (on instanceof pg.Pool ? withClient(on, run) : run(on));
      return rows;
    },
  };
}

const TYPES = {
  getTypeParser: ((type: number, format) =>
    type === pg.types.builtins.TIMESTAMPTZ && format !== "binary"
      ? instantOf
      : pg.types.getTypeParser(type, format)) as typeof pg.types.getTypeParser,
};

/** `2026-11-21 10:15:30.12+00`, as Postgres writes an instant in UTC, as `2026-11-21T10:15:30.120Z`: without a Date. */
function instantOf(text: string): string {
  if (text.length > 26 || text[10] !== " " || !text.endsWith("+00")) return new Date(text).toISOString();
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${text.slice(20, -3).padEnd(3, "0")}Z`;
}

const inTransaction = <Result>(
  pool: pg.Pool,
  prepared: boolean,
  isOverdue: IsOverdue,
  work: (tx: Sql) => Promise<Result>,
): Promise<Result> =>
  withClient(pool, async (client) => {
    demandTime(isOverdue);
    await client.query("BEGIN");
    try {
      const result = await work(sqlOver(client, prepared, isOverdue));
      await client.query("COMMIT");
      return result;
    } catch (error) {
      // One that is gone or silent would not hear this either, and rolls back without its connection.
      const isLost = !(error instanceof pg.DatabaseError) && classify(error) === "unavailable";
      if (!isLost || error instanceof Unavailable) await client.query("ROLLBACK");
      throw error;
    }
  });

/** Another request was faster: what was read no longer holds, and the whole is to be tried again. */
export class LostRace extends Error {
  readonly code = "40001";
}

/** What cannot be answered now may be later. */
export class Unavailable extends Error {
  readonly code = "57014";
}

const PAUSE_MS = 20;

async function again<Result>(attempt: () => Promise<Result>): Promise<Result> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      if (tries === ATTEMPTS || classify(error) !== "conflict") throw error;
      // Those in conflict would else meet again at the same place.
      await sleep(Math.random() * PAUSE_MS * tries);
    }
  }
}

/** What a failure of the database means: try again at once, try again later, or a fault of ours. */
export type Failure = "conflict" | "unavailable" | "fault";

const CONFLICT = /^(40001|40P01|P2034)$/;
// Connections, resources, operator intervention, read-only standbys, timeouts of statements and locks; Prisma's
// own codes for the same; the system's for sockets.
const UNAVAILABLE =
  /^(08...|53...|57P0.|57014|55P03|25006|58030|P1001|P1002|P1008|P1017|P2024|P2028|ECONN\w+|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ENOENT)$/;
const UNAVAILABLE_TEXT =
  /timeout exceeded when trying to connect|Connection terminated|Query read timeout|Client has encountered a connection error|not queryable|SocketTimeout|ConnectionClosed|DatabaseNotReachable|TooManyConnections|the database system is/i;
const CONFLICT_TEXT = /TransactionWriteConflict/;

/** One reading of the several shapes in which pg, the adapter and Prisma report the same failure. */
export function classify(error: unknown): Failure {
  const facts = factsOf(error).flatMap(({ codes, messages }) => [...codes, ...messages]);
  if (facts.some((fact) => CONFLICT.test(fact) || CONFLICT_TEXT.test(fact))) return "conflict";
  if (facts.some((fact) => UNAVAILABLE.test(fact) || UNAVAILABLE_TEXT.test(fact))) return "unavailable";
  return "fault";
}

/** Seconds after which a client should try again when the database is out of reach. */
const RETRY_AFTER = 1;

/** Any failure as the error that leaves the core; the cause is kept for the log. */
export function toServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  if (classify(error) === "fault") return new ServiceError("INTERNAL_ERROR", { cause: error });
  return new ServiceError("INTERNAL_ERROR", {
    status: 503,
    retryAfter: RETRY_AFTER,
    message: "The service is briefly unavailable.",
    cause: error,
  });
}
