import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { MIGRATE } from "./advisory-locks.js";
import {
  atomicMigrations,
  migrationList,
  migrationNames,
  NO_FILTERS,
  openSession,
  SESSION_MARKER,
  withEngine,
} from "./engine.js";
import { assertSupportedServer } from "./server-version.js";

type Report = (line: string) => void;

export interface MigrateOptions {
  /** Called with one line for each thing worth telling a person. */
  onProgress?: Report;
  /** Whether to keep a random root secret in the database where it has none: wanted where APP_SECRETS is unset. */
  storeSecret?: boolean;
  /** Called before anything is changed; what it throws is the cause of the failure. */
  check?: (database: Queryable) => Promise<unknown>;
}

/**
 * Brings the database to the current schema: the migrations and the stored secret. Any
 * number of processes may call it at once. Gives the names of the migrations it applied. Throws an Error of one
 * sentence, without the password of the URL.
 */
export async function migrate(
  databaseUrl: string,
  { onProgress = () => {}, storeSecret = false, check = async () => {} }: MigrateOptions = {},
): Promise<{ applied: string[] }> {
  const session = openSession(databaseUrl);
  try {
    await assertDirectSession(session);
    await assertSupportedServer(session);
    await acquireLock(session, onProgress);
    await check(session);
    const applied = await applyMigrations(session, onProgress);
    if (storeSecret) await storeFirstSecret(session, onProgress);
    return { applied };
  } catch (error) {
    throw new Error(redactPassword(explain(error, databaseUrl), databaseUrl), { cause: error });
  } finally {
    // Ending the connection is what gives the lock up.
    await session.end().catch(() => {});
  }
}

/** Anything with pg's `query`. */
export interface Queryable {
  query(text: string): Promise<{ rows: unknown[] }>;
}

/**
 * The migrations of the folder that the database has not finished; all of them where it has seen none. Those of a newer
 * version do not count: during a rolling upgrade the older one serves on.
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
  throw new Error(
    "it is reached through a connection pooler: give migrate the address of PostgreSQL itself.",
  );
}

// Asking again rather than waiting in Postgres: a statement that waits holds a snapshot, and a migration that builds
// an index concurrently would wait for that in turn.
async function acquireLock(session: pg.Pool, onProgress: Report): Promise<void> {
  for (let tries = 0; ; tries++) {
    const { rows } = await session.query<{ got: boolean }>("SELECT pg_try_advisory_lock($1) AS got", [
      MIGRATE,
    ]);
    if (rows[0]?.got) return;
    if (tries === 0) onProgress("Another process is migrating this database: waiting for it.");
    await sleep(LOCK_POLL_MS);
  }
}

/** The cause of `migrate`'s error if the database has taken another path than this version's migrations. */
export class UnknownMigrations extends Error {}

/** The migrations of the database that this version does not have, oldest first. */
export async function unknownMigrations(database: Queryable): Promise<string[]> {
  const known = new Set(await migrationNames());
  const begun = await migrationRows(database, "rolled_back_at IS NULL");
  return [...begun].filter((name) => !known.has(name)).sort();
}

// A database that a newer version has migrated lacks nothing of ours: a roll-back may run `migrate` too.
async function assertNoUnknownMigrations(session: pg.Pool): Promise<void> {
  const unknown = await unknownMigrations(session);
  if (unknown.length === 0) return;
  throw new UnknownMigrations(
    `another version of guest-forms has migrated it (this one has no migration ${unknown.at(-1)})`,
  );
}

async function applyMigrations(session: pg.Pool, onProgress: Report): Promise<string[]> {
  if ((await pendingMigrations(session)).length === 0) return [];
  await assertNoUnknownMigrations(session);
  const migrationsList = await migrationList();
  return withEngine(session, async (engine) => {
    for (const name of await interruptedMigrations(session)) {
      onProgress(`Migration ${name} was cut short and left nothing behind: it is applied again.`);
      await engine.markMigrationRolledBack({ migrationName: name });
    }
    const { appliedMigrationNames } = await engine.applyMigrations({ migrationsList, filters: NO_FILTERS });
    for (const name of appliedMigrationNames) onProgress(`Applied migration ${name}.`);
    return appliedMigrationNames;
  });
}

// Under the lock nobody else is at work, so an unfinished migration has failed or was killed.
async function interruptedMigrations(session: pg.Pool): Promise<string[]> {
  const unfinished = await migrationRows(session, "finished_at IS NULL AND rolled_back_at IS NULL");
  return (await atomicMigrations()).filter((name) => unfinished.has(name));
}

async function storeFirstSecret(session: pg.Pool, onProgress: Report): Promise<void> {
  const { rowCount } = await session.query(
    "INSERT INTO stored_secrets (secret) SELECT $1 WHERE NOT EXISTS (SELECT FROM stored_secrets)",
    [randomBytes(32).toString("base64url")],
  );
  if (rowCount) onProgress("Stored a random secret in the database, since APP_SECRETS is not set.");
}

function explain(error: unknown, url: string): string {
  if (!URL.canParse(url)) return "Cannot migrate: the address of the database is no postgres:// URL.";
  const { host, pathname } = new URL(url);
  return `Cannot migrate the database ${pathname.slice(1)} at ${host}: ${reasonOf(error)}`;
}

// A refused connection to a name with several addresses is an AggregateError without a message. The engine's messages
// end in a trace of its own calls, which names the migration.
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
