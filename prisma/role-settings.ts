import pg from "pg";
import { ROLE_SETTINGS } from "./advisory-locks.js";
import { openSession } from "./engine.js";

/** Settings of sessions, by name. */
type SessionSettings = Readonly<Record<string, string>>;

export interface RoleSettingsOptions {
  /** Address of the database itself. */
  directUrl: string;
  /** Address through the pooler, whose sessions are to have the settings. */
  pooledUrl: string;
  settings: SessionSettings;
  onProgress?: (line: string) => void;
}

/**
 * Has every new session of the pooler's role in this database begin with the settings, for a pooler in transaction
 * mode passes on none that a client asks for. Gives the names of those that were not as they should be. Any number of
 * processes may call it at once.
 */
export async function storeRoleSettings(options: RoleSettingsOptions): Promise<string[]> {
  const { directUrl, pooledUrl, settings, onProgress = () => {} } = options;
  const pooled = await identifyPooledSession(pooledUrl);
  const session = openSession(directUrl);
  try {
    await assertSameDatabase(session, pooled);
    const changed = await alterRole(session, pooled, settings);
    if (changed.length === 0) return [];
    // It began before, and would be the first that the service is given.
    await session.query("SELECT pg_terminate_backend($1)", [pooled.pid]).catch(() => {});
    onProgress(
      `Stored ${changed.join(", ")} for the role ${pooled.role} in the database ${pooled.database}. ` +
        "Sessions that the pooler holds open do not have it yet: where there were any, give PgBouncer a RECONNECT.",
    );
    return changed;
  } catch (error) {
    throw new Error(`Cannot store the settings of the pooler's sessions: ${(error as Error).message}`);
  } finally {
    await session.end().catch(() => {});
  }
}

interface PooledSession {
  role: string;
  database: string;
  pid: number;
}

/** Which role, database and session are behind the pooler, whatever it calls them. */
async function identifyPooledSession(pooledUrl: string): Promise<PooledSession> {
  const client = new pg.Client({ connectionString: pooledUrl, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    const { rows } = await client.query<PooledSession>(
      "SELECT current_user AS role, current_database() AS database, pg_backend_pid() AS pid",
    );
    if (!rows[0]) throw new Error("it answers nothing");
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
  if (!rows[0]?.same) throw new Error("DATABASE_DIRECT_URL and DATABASE_URL do not lead to one database");
}

async function alterRole(
  session: pg.Pool,
  pooled: PooledSession,
  settings: SessionSettings,
): Promise<string[]> {
  const client = await session.connect();
  try {
    // Of two at once, one of the writers of a role's settings would fail.
    await client.query("BEGIN");
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
