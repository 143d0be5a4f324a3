import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { MIGRATE } from "./advisory-locks.js";
import { NO_FILTERS, withEngine } from "./engine.js";
import { migrationList, migrationNames, readScript } from "./migration-files.js";
import type { RunOptions } from "./run-script.js";
import { parseScript, type Script, type Statement } from "./script.js";
import { assertSupportedServer } from "./server-version.js";
import { openSession, SESSION_MARKER } from "./session.js";

type OnProgress = (line: string) => void;

export interface MigrateOptions {
  /** Called with one line per step, for humans. */
  onProgress?: OnProgress;
  /** Whether to store a random root secret if the database has none. For use without APP_SECRETS. */
  storeSecret?: boolean;
  /** Called before anything is changed. If it throws, `migrate` fails with that error as its cause. */
  check?: (database: Queryable) => Promise<unknown>;
  /** Milliseconds to keep trying while other transactions hold locks that a migration needs. */
  lockWaitMs?: number;
  /** Called when the database is up to date, before other processes get the lock. */
  finish?: (database: Queryable) => Promise<void>;
}

/**
 * Applies pending migrations and, if asked, stores a secret. Safe to call from several processes at once. Returns the names
 * of the applied migrations. Throws an Error with a one-line message that never contains the URL's password.
 */
export const migrate = (
  databaseUrl: string,
  {
    onProgress = () => {},
    storeSecret = false,
    lockWaitMs = LOCK_WAIT_MS,
    check,
    finish,
  }: MigrateOptions = {},
): Promise<{ applied: string[] }> =>
  withSession(databaseUrl, async (session) => {
    await acquireLock(session, onProgress);
    await check?.(session);
    const applied = await applyMigrations(session, { onProgress, lockWaitMs });
    if (storeSecret) await storeFirstSecret(session, onProgress);
    await finish?.(session);
    return { applied };
  });

export interface PendingMigration {
  name: string;
  statements: Statement[];
}

/** Returns what `migrate` would apply. Changes nothing. Throws as `migrate` does before it changes anything. */
export const planMigrations = (
  databaseUrl: string,
  { check }: Pick<MigrateOptions, "check"> = {},
): Promise<PendingMigration[]> =>
  withSession(databaseUrl, async (session) => {
    await check?.(session);
    const pending = await pendingMigrations(session);
    if (pending.length > 0) await assertNoUnknownMigrations(session);
    return Promise.all(
      pending.map(async (name) => ({ name, statements: (await readMigration(name)).statements })),
    );
  });

/** Runs `work` with the only session of the database. Errors become an Error with a one-line message. */
async function withSession<Result>(
  databaseUrl: string,
  work: (session: pg.Pool) => Promise<Result>,
): Promise<Result> {
  const session = openSession(databaseUrl);
  try {
    await assertDirectSession(session);
    await assertSupportedServer(session);
    return await work(session);
  } catch (error) {
    throw new Error(redactPassword(explain(error, databaseUrl), databaseUrl), { cause: error });
  } finally {
    // Closing the connection releases the lock.
    await session.end().catch(() => {});
  }
}

/** Less than TimeoutStartSec of deploy/guest-forms.service. */
const LOCK_WAIT_MS = 600_000;

export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/**
 * Returns the migrations of this version that the database has not finished. Migrations of a newer version are ignored:
 * the old version keeps serving during a rolling upgrade.
 */
export async function pendingMigrations(database: Queryable): Promise<string[]> {
  const names = await migrationNames();
  const finished = await migrationRows(database, "finished_at IS NOT NULL AND rolled_back_at IS NULL");
  return names.filter((name) => !finished.has(name));
}

async function migrationRows(database: Queryable, where: string): Promise<Set<string>> {
  try {
    const { rows } = await database.query(
      `SELECT migration_name AS name FROM _prisma_migrations WHERE ${where}`,
    );
    return new Set(rows.map((row) => (row as { name: string }).name));
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === UNDEFINED_TABLE) return new Set();
    throw error;
  }
}

const UNDEFINED_TABLE = "42P01";

const LOCK_POLL_MS = 200;

async function assertDirectSession(session: pg.Pool): Promise<void> {
  try {
    const { rows } = await session.query<{ mark: string | null }>(
      "SELECT current_setting($1, true) AS mark",
      [SESSION_MARKER],
    );
    if (rows[0]?.mark) return;
  } catch (error) {
    if (!/unsupported startup parameter/.test(reasonOf(error))) throw error;
  }
  throw new Error("it is reached through a connection pooler");
}

// Polls instead of waiting in Postgres: a waiting statement holds a snapshot, which CREATE INDEX CONCURRENTLY would wait
// for (a deadlock).
async function acquireLock(session: pg.Pool, onProgress: OnProgress): Promise<void> {
  for (let tries = 0; ; tries++) {
    const { rows } = await session.query<{ got: boolean }>("SELECT pg_try_advisory_lock($1) AS got", [
      MIGRATE,
    ]);
    if (rows[0]?.got) return;
    if (tries === 0) onProgress("Another process is migrating this database: waiting for it.");
    await sleep(LOCK_POLL_MS);
  }
}

/** Cause of `migrate`'s error if the database has migrations that this version does not have, and lacks some of its own. */
export class UnknownMigrations extends Error {}

/** Returns the migrations in the database that this version does not have, oldest first. */
export async function unknownMigrations(database: Queryable): Promise<string[]> {
  const known = new Set(await migrationNames());
  const started = await migrationRows(database, "rolled_back_at IS NULL");
  return [...started].filter((name) => !known.has(name)).sort();
}

// Only called if migrations are pending, so `migrate` also succeeds after a rollback to an older version.
async function assertNoUnknownMigrations(session: pg.Pool): Promise<void> {
  const unknown = await unknownMigrations(session);
  if (unknown.length === 0) return;
  throw new UnknownMigrations(
    `another version of guest-forms has migrated it (this one has no migration ${unknown.at(-1)})`,
  );
}

async function applyMigrations(session: pg.Pool, options: RunOptions): Promise<string[]> {
  const { onProgress } = options;
  const pending = await pendingMigrations(session);
  if (pending.length === 0) return [];
  await assertNoUnknownMigrations(session);
  // Throws before anything is changed if one of them is invalid.
  await Promise.all(pending.map(readMigration));
  const migrationsList = await migrationList();
  return withEngine(session, options, async (engine) => {
    for (const name of await interruptedMigrations(session)) {
      onProgress(`Migration ${name} was interrupted: applying it again.`);
      await engine.markMigrationRolledBack({ migrationName: name });
    }
    const { appliedMigrationNames } = await engine.applyMigrations({ migrationsList, filters: NO_FILTERS });
    for (const name of appliedMigrationNames) onProgress(`Applied migration ${name}.`);
    return appliedMigrationNames;
  });
}

/** Parses a migration of this version; throws if it cannot be applied safely. */
async function readMigration(name: string): Promise<Script> {
  const script = await readScript(name);
  try {
    return parseScript(script);
  } catch (error) {
    throw new Error(`migration ${name} is invalid: ${(error as Error).message}`);
  }
}

// This process holds the lock, so an unfinished migration has failed or was killed. Every migration of this version can
// be repeated: it is a transaction, or an index that `runConcurrently` builds again.
async function interruptedMigrations(session: pg.Pool): Promise<string[]> {
  const unfinished = await migrationRows(session, "finished_at IS NULL AND rolled_back_at IS NULL");
  return (await migrationNames()).filter((name) => unfinished.has(name));
}

async function storeFirstSecret(session: pg.Pool, onProgress: OnProgress): Promise<void> {
  const { rowCount } = await session.query(
    "INSERT INTO stored_secrets (secret) SELECT $1 WHERE NOT EXISTS (SELECT FROM stored_secrets)",
    [randomBytes(32).toString("base64url")],
  );
  if (rowCount) onProgress("Stored a random secret in the database because APP_SECRETS is not set.");
}

function explain(error: unknown, url: string): string {
  if (!URL.canParse(url)) return "Cannot migrate: the database address is not a postgres:// URL.";
  const { host, pathname } = new URL(url);
  const reason = reasonOf(error);
  const advice = /lock timeout/.test(reason)
    ? ". Another transaction holds a lock that the migration needs. It changed nothing; migrations before it stay applied. End that transaction, then migrate again"
    : "";
  return `Cannot migrate the database ${pathname.slice(1)} at ${host}: ${reason}${advice}`;
}

// A failed connection to a host with several addresses rejects with an AggregateError that has no message. The engine's
// messages end in a stack trace that names the migration.
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join("; ");
  if (!(error instanceof Error)) return String(error);
  const migration = /migration_name="([^"]+)"/.exec(error.message)?.[1];
  const [message = ""] = error.message.replace("external connector error\n", "").split(/\n\s*0: /);
  const reason = message.replace(/\s+/g, " ").trim() || error.name;
  return migration ? `migration ${migration} failed: ${reason}` : reason;
}

function redactPassword(text: string, url: string): string {
  const password = /^\w+:\/\/[^/@]*?:([^/]*)@/.exec(url)?.[1];
  return password ? text.replaceAll(password, "…") : text;
}
