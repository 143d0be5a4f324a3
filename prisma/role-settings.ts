import pg from "pg";
import { ROLE_SETTINGS } from "./advisory-locks.js";
import { openSession } from "./session.js";

type SessionSettings = Readonly<Record<string, string>>;

export interface RoleSettingsOptions {
  /** URL of the database itself. */
  directUrl: string;
  /** URL of the pooler, whose sessions get the settings. */
  pooledUrl: string;
  settings: SessionSettings;
  onProgress?: (line: string) => void;
}

/**
 * Stores the settings as defaults of the pooler's role in this database, because a pooler in transaction mode does not pass
 * on settings of clients. Returns the names of the settings that changed. Safe to call from several processes at once.
 */
export async function storeRoleSettings(options: RoleSettingsOptions): Promise<string[]> {
  const { directUrl, pooledUrl, settings, onProgress = () => {} } = options;
  const pooled = await identifyPooledSession(pooledUrl);
  const session = openSession(directUrl);
  try {
    await assertSameDatabase(session, pooled);
    const changed = await alterRole(session, pooled, settings);
    if (changed.length === 0) return [];
    onProgress(
      `Stored ${changed.join(", ")} for the role ${pooled.role} in the database ${pooled.database}. ` +
        "Open sessions of the pooler keep the old settings: run RECONNECT in PgBouncer.",
    );
    return changed;
  } catch (error) {
    throw new Error(`Cannot store the settings of the pooler's role: ${(error as Error).message}`);
  } finally {
    await session.end().catch(() => {});
  }
}

interface PooledSession {
  role: string;
  database: string;
  pid: number;
}

/** Returns the actual role, database and session behind the pooler, which may use aliases. */
async function identifyPooledSession(pooledUrl: string): Promise<PooledSession> {
  const client = new pg.Client({ connectionString: pooledUrl, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    const { rows } = await client.query<PooledSession>(
      "SELECT current_user AS role, current_database() AS database, pg_backend_pid() AS pid",
    );
    if (!rows[0]) throw new Error("empty result");
    return rows[0];
  } catch (error) {
    throw new Error(`Cannot reach the database through DATABASE_URL: ${(error as Error).message}`);
  } finally {
    await client.end().catch(() => {});
  }
}

async function assertSameDatabase(session: pg.Pool, pooled: PooledSession): Promise<void> {
  const { rows } = await session.query<{ same: boolean }>(
    `SELECT current_database() = $1 AND EXISTS (SELECT FROM pg_stat_activity WHERE pid = $2) AS same`,
    [pooled.database, pooled.pid],
  );
  if (!rows[0]?.same)
    throw new Error("DATABASE_DIRECT_URL and DATABASE_URL do not point to the same database");
}

async function alterRole(
  session: pg.Pool,
  pooled: PooledSession,
  settings: SessionSettings,
): Promise<string[]> {
  const client = await session.connect();
  try {
    await client.query("BEGIN");
    // No request waits behind this lock.
    await client.query("SET LOCAL lock_timeout = 0");
    // Concurrent ALTER ROLE statements on one role fail.
    await client.query("SELECT pg_advisory_xact_lock($1)", [ROLE_SETTINGS]);
    const { rows } = await client.query<{ settings: string[] | null }>(
      `SELECT s.setconfig AS settings
       FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole JOIN pg_database d ON d.oid = s.setdatabase
       WHERE r.rolname = $1 AND d.datname = $2`,
      [pooled.role, pooled.database],
    );
    const stored = new Set(rows[0]?.settings ?? []);
    const missing = Object.entries(settings).filter(([name, value]) => !stored.has(`${name}=${value}`));
    for (const [name, value] of missing) {
      await client.query(
        `ALTER ROLE ${client.escapeIdentifier(pooled.role)} IN DATABASE ${client.escapeIdentifier(pooled.database)}
         SET ${client.escapeIdentifier(name)} TO ${client.escapeLiteral(value)}`,
      );
    }
    await client.query("COMMIT");
    return missing.map(([name]) => name);
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    throw error;
  } finally {
    client.release();
  }
}
