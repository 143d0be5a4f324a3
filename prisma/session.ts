import pg from "pg";
import { connectionOf } from "./connection.js";

/** Set in every session to detect a pooler, which drops it. Session locks do not work through a pooler. */
export const SESSION_MARKER = "guest_forms.session";

/**
 * How long a statement of a migration waits for a lock. Requests queue behind it meanwhile, so this bounds how much a
 * migration delays them.
 */
const LOCK_TIMEOUT_MS = 200;

// The role's timeouts must not interrupt a migration.
const SETTINGS = {
  timezone: "UTC",
  statement_timeout: "0",
  idle_in_transaction_session_timeout: "0",
  lock_timeout: `${LOCK_TIMEOUT_MS}`,
  [SESSION_MARKER]: "own",
};

const CONNECT_TIMEOUT_MS = 10_000;

/**
 * A pool of exactly one connection. A lock of its session is held until all work is done. This includes a statement that
 * still runs after the client was killed: the server finishes it before it releases the lock.
 */
export function openSession(connectionString: string): pg.Pool {
  const session = new pg.Pool({
    ...withOptions(connectionString, SETTINGS),
    max: 1,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    application_name: "guest-forms migrate",
  });
  // The next query rejects. Without listeners, losing the connection would crash the process.
  session.on("error", () => {});
  session.on("connect", (client) => client.on("error", () => {}));
  return session;
}

/**
 * Returns pg's configuration of a connection whose sessions have these settings. In pg, `options` in the URL replace the
 * `options` property, so both are merged; `settings` come last and win.
 */
export function withOptions(url: string, settings: Record<string, string>): pg.ClientConfig {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  const given = address?.searchParams.get("options") ?? "";
  if (given) address?.searchParams.delete("options");
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  return {
    ...connectionOf(given && address ? address.href : url),
    options: [given, ...options].join(" ").trim(),
  };
}

/** Oldest major version covered by the tests. The migrations use SQL-standard function bodies, which need 14. */
const MIN_POSTGRES = 15;

/** Engines that speak PostgreSQL's protocol but lack what guest-forms relies on, by what their `version()` contains. */
const OTHER_ENGINES: { name: string; pattern: RegExp; lacks: string }[] = [
  { name: "YugabyteDB", pattern: /-YB-|Yugabyte/i, lacks: "snapshots that show the transactions in flight" },
  { name: "CockroachDB", pattern: /CockroachDB/i, lacks: "statement triggers and advisory locks" },
  { name: "Amazon Redshift", pattern: /Redshift/i, lacks: "row locks and triggers" },
  { name: "Greenplum", pattern: /Greenplum/i, lacks: "unique indexes across all servers" },
  { name: "Materialize", pattern: /Materialize/i, lacks: "row locks and triggers" },
  { name: "RisingWave", pattern: /RisingWave/i, lacks: "row locks and triggers" },
];

const VERSION = `
  SELECT version() AS engine, current_setting('server_version') AS text,
    current_setting('server_version_num')::int AS number`;

/** Throws if the server is older than MIN_POSTGRES, or another engine. */
export async function assertSupportedServer(database: {
  query(text: string): Promise<{ rows: unknown[] }>;
}): Promise<void> {
  const [version] = (await database.query(VERSION)).rows as { engine: string; text: string; number: number }[];
  if (!version) return;
  const other = OTHER_ENGINES.find(({ pattern }) => pattern.test(version.engine));
  if (other) throw new Error(`${other.name} is not supported: it lacks ${other.lacks}. ${USE_POSTGRES}`);
  if (!version.engine.startsWith("PostgreSQL"))
    throw new Error(`The database is not PostgreSQL but ${version.engine.slice(0, 40)}. ${USE_POSTGRES}`);
  if (version.number < MIN_POSTGRES * 10_000)
    throw new Error(`PostgreSQL ${version.text} is too old: guest-forms needs ${MIN_POSTGRES} or newer.`);
}

const USE_POSTGRES = `Use PostgreSQL ${MIN_POSTGRES} or newer.`;
