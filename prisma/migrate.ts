import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { MIGRATE } from "./advisory-locks.js";
import { checkHistory, hasMigrationsTable, type Queryable } from "./history.js";
import { migrationNames, readScript } from "./migration-files.js";
import { type RunOptions, retryLockTimeouts, runConcurrently } from "./run-script.js";
import { assertSupportedServer, openSession, SESSION_MARKER } from "./session.js";

export interface MigrateOptions extends Partial<RunOptions> {
  /** Called before anything is changed. If it throws, `migrate` fails with that error as its cause. */
  check?: (database: Queryable) => Promise<unknown>;
  /** Called when the database is up to date, before other processes get the lock. */
  finish?: (database: Queryable) => Promise<void>;
}

/** Less than TimeoutStartSec of deploy/guest-forms@.service. */
const LOCK_WAIT_MS = 600_000;

/**
 * Applies pending migrations. Safe to call from several processes at once. Returns the names of the applied ones. Throws an Error with a one-line message.
 */
export const migrate = (
  databaseUrl: string,
  { onProgress = () => {}, lockWaitMs = LOCK_WAIT_MS, check, finish }: MigrateOptions = {},
): Promise<{ applied: string[] }> =>
  withSession(databaseUrl, async (session) => {
    await acquireLock(session, onProgress);
    await check?.(session);
    const pending = await readPending(session);
    if (pending.length > 0) await session.query(MIGRATIONS_TABLE);
    // The indexes of a new database are built at once.
    const isNew = pending.length === (await migrationNames()).length;
    for (const migration of pending) {
      await applyMigration(session, migration, { onProgress, lockWaitMs }, isNew ? () => {} : onProgress);
      onProgress(`Applied migration ${migration.name}.`);
    }
    await finish?.(session);
    return { applied: pending.map(({ name }) => name) };
  });

/** Returns what `migrate` would apply. Changes nothing. Throws as `migrate` does before it changes anything. */
export const planMigrations = (databaseUrl: string, { check }: Pick<MigrateOptions, "check"> = {}) =>
  withSession(databaseUrl, async (session) => {
    await check?.(session);
    return readPending(session);
  });

/** Runs `work` with the only session of the database. Errors become an Error with a one-line message. */
async function withSession<Result>(
  databaseUrl: string,
  work: (session: pg.ClientBase) => Promise<Result>,
): Promise<Result> {
  const pool = openSession(databaseUrl);
  let session: pg.PoolClient | undefined;
  try {
    session = await pool.connect();
    const { rows } = await session.query("SELECT current_setting($1, true) AS mark", [SESSION_MARKER]);
    if (!rows[0]?.mark) throw new Error(POOLED);
    await assertSupportedServer(session);
    return await work(session);
  } catch (error) {
    throw new Error(explain(error, databaseUrl), { cause: error });
  } finally {
    // Closing the connection releases the lock.
    session?.release();
    await pool.end().catch(() => {});
  }
}

const POOLED = "it is reached through a connection pooler";

const LOCK_POLL_MS = 200;

// Polls instead of waiting in Postgres: a waiting statement holds a snapshot, which CREATE INDEX CONCURRENTLY would wait
// for (a deadlock).
async function acquireLock(session: pg.ClientBase, onProgress: RunOptions["onProgress"]): Promise<void> {
  for (let tries = 0; ; tries++) {
    const { rows } = await session.query<{ got: boolean }>("SELECT pg_try_advisory_lock($1) AS got", [MIGRATE]);
    if (rows[0]?.got) return;
    if (tries === 0) onProgress("Another process is migrating this database: waiting for it.");
    await sleep(LOCK_POLL_MS);
  }
}

/** Tables of the current schema, except those of extensions. */
const TABLES = `
  SELECT c.relname AS name FROM pg_class c
  WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')`;

export interface PendingMigration {
  name: string;
  sql: string;
}

/**
 * Returns the pending migrations; throws if the database belongs to another version or program. Without pending ones, it may
 * belong to a newer version, so `migrate` also succeeds after a rollback to an older one.
 */
async function readPending(session: pg.ClientBase): Promise<PendingMigration[]> {
  const pending = await checkHistory(session);
  if (pending.length === 0) return [];
  if (!(await hasMigrationsTable(session))) {
    const { rows } = await session.query<{ name: string }>(TABLES);
    if (rows[0]) throw new Error(`it is not empty: it has the table ${rows[0].name}. Use a database of its own`);
  }
  return Promise.all(pending.map(async (name) => ({ name, sql: await readScript(name) })));
}

/** Prisma's own table, so that its tools understand the database. */
const MIGRATIONS_TABLE = `
  CREATE TABLE IF NOT EXISTS _prisma_migrations (
    id varchar(36) PRIMARY KEY,
    checksum varchar(64) NOT NULL,
    finished_at timestamptz,
    migration_name varchar(255) NOT NULL,
    logs text,
    rolled_back_at timestamptz,
    started_at timestamptz NOT NULL DEFAULT now(),
    applied_steps_count integer NOT NULL DEFAULT 0
  )`;

async function applyMigration(
  session: pg.ClientBase,
  { name, sql }: PendingMigration,
  options: RunOptions,
  onIndex: RunOptions["onProgress"],
): Promise<void> {
  try {
    const { rows } = await session.query<{ now: string }>("SELECT now()::text");
    const record = recordOf(name, sql, rows[0]?.now ?? "");
    if (await runConcurrently(session, sql, onIndex)) await session.query(record);
    // Postgres runs several statements that are sent together as one transaction.
    else await retryLockTimeouts(session, () => session.query(`${sql}\n;\n${record}`), options);
  } catch (error) {
    throw new Error(`migration ${name} failed: ${reasonOf(error)}`);
  }
}

// Marks attempts that an earlier version left unfinished as rolled back: Prisma's tools report them as failed otherwise.
function recordOf(name: string, sql: string, startedAt: string): string {
  const checksum = createHash("sha256").update(sql).digest("hex");
  const [quotedName, quotedStart] = [name, startedAt].map(pg.escapeLiteral);
  return `
    UPDATE _prisma_migrations SET rolled_back_at = clock_timestamp()
    WHERE migration_name = ${quotedName} AND finished_at IS NULL AND rolled_back_at IS NULL;
    INSERT INTO _prisma_migrations (id, checksum, migration_name, started_at, finished_at, applied_steps_count)
    VALUES (gen_random_uuid(), '${checksum}', ${quotedName}, ${quotedStart}, clock_timestamp(), 1)`;
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

function reasonOf(error: unknown): string {
  // A failed connection to a host with several addresses rejects with an AggregateError that has no message.
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join("; ");
  if (!(error instanceof Error)) return String(error);
  if (/unsupported startup parameter/.test(error.message)) return POOLED;
  const { detail, hint } = error instanceof pg.DatabaseError ? error : {};
  const parts = [error.message.trim() || error.name, detail && `DETAIL: ${detail}`, hint && `HINT: ${hint}`];
  return parts.filter(Boolean).join(" ").replace(/\s+/g, " ");
}
