import pg from "pg";
import { ROLE_SETTINGS } from "./advisory-locks.js";
import { connectionOf } from "./connection.js";
import { openSession } from "./session.js";

export interface RoleSettingsOptions {
  /** URL of the database itself. */
  directUrl: string;
  /** URL of the pooler, whose sessions get the settings. */
  pooledUrl: string;
  settings: Readonly<Record<string, string>>;
  onProgress: (line: string) => void;
}

// The pooler may use other names for the role and the database, so both are asked for in its own session.
const IDENTIFY = `
  SELECT concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), d.oid) AS id, current_user AS role, d.datname AS database,
    coalesce((SELECT s.setconfig FROM pg_db_role_setting s
      WHERE s.setdatabase = d.oid AND s.setrole = current_user::regrole), '{}') AS stored
  FROM pg_database d WHERE d.datname = current_database()`;

interface Identity {
  /** Of the database. */
  id: string;
  role: string;
  database: string;
  /** The stored settings, as `name=value`. */
  stored: string[];
}

/**
 * Stores the settings as defaults of the pooler's role in this database, because a pooler in transaction mode does not pass
 * on settings of clients. Safe to call from several processes at once.
 */
export async function storeRoleSettings(options: RoleSettingsOptions): Promise<void> {
  const { directUrl, pooledUrl, settings, onProgress } = options;
  const direct = openSession(directUrl);
  const client = new pg.Client({ ...connectionOf(pooledUrl), connectionTimeoutMillis: 10_000 });
  client.on("error", () => {});
  try {
    const { rows } = await direct.query<Identity>(IDENTIFY);
    await client.connect();
    await client.query("BEGIN");
    // Concurrent ALTER ROLE statements on one role fail.
    await client.query("SELECT pg_advisory_xact_lock($1)", [ROLE_SETTINGS]);
    const [pooled] = (await client.query<Identity>(IDENTIFY)).rows;
    if (!pooled || pooled.id !== rows[0]?.id)
      throw new Error("DATABASE_DIRECT_URL and DATABASE_URL do not point to the same database");
    const { role, database, stored } = pooled;
    const missing = Object.entries(settings).filter(([name, value]) => !stored.includes(`${name}=${value}`));
    for (const [name, value] of missing) {
      await client.query(
        `ALTER ROLE CURRENT_USER IN DATABASE ${pg.escapeIdentifier(database)}
         SET ${pg.escapeIdentifier(name)} TO ${pg.escapeLiteral(value)}`,
      );
    }
    await client.query("COMMIT");
    if (missing.length > 0) {
      const names = missing.map(([name]) => name).join(", ");
      onProgress(
        `Stored ${names} for the role ${role} in the database ${database}. ` +
          "Open sessions of the pooler keep the old settings: run RECONNECT in PgBouncer.",
      );
    }
  } catch (error) {
    throw new Error(`Cannot store the settings of the pooler's role: ${(error as Error).message}`);
  } finally {
    // Ends a transaction that has failed.
    await Promise.all([client.end(), direct.end()]).catch(() => {});
  }
}
