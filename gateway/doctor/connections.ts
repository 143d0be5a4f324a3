import type { Settings } from "../../server/config.js";
import type { Db } from "../../server/db.js";
import { WORKER_EXTRA_CONNECTIONS } from "../../server/worker.js";
import { type DatabaseCheck, ok, warning } from "./check.js";

/** The connection for /readyz. */
const READINESS_CONNECTIONS = 1;

// -1 means no limit.
const LIMITS_SQL = `
  SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
      - coalesce(current_setting('reserved_connections', true)::int, 0) AS server,
    (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS role,
    (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS database`;

/** The maximum number of connections that the processes open, and the number that Postgres allows. */
export async function countConnections(
  db: Db,
  settings: Settings,
  { processes, worker }: { processes: number; worker: boolean },
): Promise<{ needed: number; allowed: number }> {
  const perWorker = worker ? settings.WORKER_CONCURRENCY + WORKER_EXTRA_CONNECTIONS : 0;
  const needed = processes * (settings.DATABASE_POOL_SIZE + READINESS_CONNECTIONS + perWorker);
  // Behind a pooler, Postgres' limits do not apply to these connections.
  if (!settings.DATABASE_PREPARED) return { needed, allowed: Number.POSITIVE_INFINITY };
  const [limits] = await db.query<Record<string, number>>("connection-limits", LIMITS_SQL, []);
  return { needed, allowed: Math.min(...Object.values(limits ?? {}).filter((limit) => limit >= 0)) };
}

const ADVICE = "lower DATABASE_POOL_SIZE, raise max_connections, or use PgBouncer";

const SHARE_ADVICE = "lower DATABASE_CONNECTIONS_PER_HOLDER to half of DATABASE_POOL_SIZE or less";

export const TOO_MANY_CONNECTIONS = `the processes may need more connections than Postgres allows: ${ADVICE}`;

export const connectionsCheck: DatabaseCheck = {
  name: "connections",
  async run({ settings, processes, worker }, db) {
    const { needed, allowed } = await countConnections(db, settings, { processes, worker });
    const limit = Number.isFinite(allowed) ? `, Postgres allows ${allowed}` : " to the pooler";
    const summary = `${processes} ${processes === 1 ? "process opens" : "processes open"} at most ${needed} connections${limit}`;
    if (needed > allowed) return warning(`${summary}: ${ADVICE}.`);
    const { DATABASE_CONNECTIONS_PER_HOLDER: share, DATABASE_POOL_SIZE: size } = settings;
    return 2 * share > size
      ? warning(`One key holder may use ${share} of the ${size} connections of a process: ${SHARE_ADVICE}.`)
      : ok(`${summary}.`);
  },
};
