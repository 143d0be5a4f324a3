import type { Settings } from "../../server/config.js";
import type { Db } from "../../server/db.js";
import { WORKER_EXTRA_CONNECTIONS } from "../../server/worker.js";
import { type DatabaseCheck, ok, warning } from "./check.js";

// -1 is no limit.
const LIMITS = `
  SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
      - coalesce(current_setting('reserved_connections', true)::int, 0) AS server,
    (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS role,
    (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS database`;

/** The most connections that so many processes open, and those that Postgres allows them. */
export async function countConnections(
  db: Db,
  settings: Settings,
  { processes, worker }: { processes: number; worker: boolean },
): Promise<{ needed: number; allowed: number }> {
  const ofWorker = worker ? settings.WORKER_CONCURRENCY + WORKER_EXTRA_CONNECTIONS : 0;
  const needed = processes * (settings.DATABASE_POOL_SIZE + ofWorker);
  // Of a pooler, the limits are its own.
  if (!settings.DATABASE_PREPARED) return { needed, allowed: Number.POSITIVE_INFINITY };
  const [limits] = await db.query<Record<string, number>>("connection-limits", LIMITS, []);
  return { needed, allowed: Math.min(...Object.values(limits ?? {}).filter((limit) => limit >= 0)) };
}

export const TOO_MANY_CONNECTIONS =
  "the processes may need more connections than Postgres allows: lower DATABASE_POOL_SIZE, raise max_connections, or use PgBouncer";

export const connectionsCheck: DatabaseCheck = {
  name: "connections",
  async run({ settings, processes, worker }, db) {
    const { needed, allowed } = await countConnections(db, settings, { processes, worker });
    const of = Number.isFinite(allowed) ? `of ${allowed}` : "to the pooler";
    const sum = `${processes} ${processes === 1 ? "process opens" : "processes open"} at most ${needed} ${of}`;
    return needed > allowed ? warning(`${sum}: ${TOO_MANY_CONNECTIONS}.`) : ok(`${sum}.`);
  },
};
