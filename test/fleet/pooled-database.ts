import { randomBytes } from "node:crypto";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import { prepareDatabase } from "../../gateway/processes/prepare-database.js";
import { readSettings } from "../../server/config.js";
import { afterFile } from "../support/after-file.js";
import { ExternalServer } from "../support/external-server.js";
import { TEST_SECRET } from "../support/factories.js";
import { makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { freePort } from "../support/network.js";
import { runSql } from "../support/run-sql.js";
import { makeTempFolder } from "../support/run-tool.js";

const PASSWORD = "not-a-secret";
/** The database name that PgBouncer exposes, which differs from the real name. */
const ALIAS = "forms";
/** Fewer than the clients, so that clients share sessions. */
const FEW_SESSIONS = 4;

export interface PooledDatabase {
  /** postgres:// address through PgBouncer. */
  url: string;
  /** postgres:// address that bypasses PgBouncer. */
  directUrl: string;
  role: string;
  database: string;
}

interface PoolerOptions {
  /** Of PgBouncer with the server. */
  sessions?: number;
  /** URL of the server; default: that of all tests. */
  serverUrl?: string;
}

/** Creates an empty database, owned by an ordinary role and not in UTC, behind its own PgBouncer. */
export async function startPooledDatabase(
  binary: string,
  { sessions = FEW_SESSIONS, serverUrl = inject("serverUrl") }: PoolerOptions = {},
): Promise<PooledDatabase> {
  const role = `guest_forms_app_${randomBytes(4).toString("hex")}`;
  const database = `${inject("template")}_${randomBytes(4).toString("hex")}`;
  const server = new URL(serverUrl);
  await runSql(server.href, `CREATE ROLE ${role} LOGIN PASSWORD '${PASSWORD}'`);
  afterFile(() => runSql(server.href, `DROP ROLE ${role}`));
  await runSql(server.href, `CREATE DATABASE ${database} OWNER ${role} TEMPLATE template0`);
  afterFile(() => runSql(server.href, `DROP DATABASE ${database} WITH (FORCE)`));
  await runSql(server.href, `ALTER DATABASE ${database} SET timezone TO 'America/New_York'`);
  const port = await freePort();
  const folder = await makeTempFolder("pgbouncer");
  // PgBouncer refuses to run as root, so another user reads its files.
  await chmod(folder, 0o755);
  const users = join(folder, "users.txt");
  await writeFile(users, `"${role}" "${PASSWORD}"\n`);
  const ini = join(folder, "pgbouncer.ini");
  await writeFile(
    ini,
    `[databases]
${ALIAS} = host=${server.hostname} port=${server.port || 5432} dbname=${database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = plain
auth_file = ${users}
admin_users = ${role}
pool_mode = transaction
default_pool_size = ${sessions}
max_client_conn = 200
server_login_retry = 1
`,
  );
  const userFlags = process.getuid?.() === 0 ? ["-u", "postgres"] : [];
  await new ExternalServer(binary, [...userFlags, ini], port).start();
  const url = `postgres://${role}:${PASSWORD}@127.0.0.1:${port}/${ALIAS}`;
  const directUrl = `postgres://${role}:${PASSWORD}@${server.host}/${database}`;
  return { url, directUrl, role, database };
}

/** Replaces the open sessions, as the operator does after the first `migrate`. */
export async function reconnect(pooled: PooledDatabase): Promise<void> {
  const console = new URL(pooled.url);
  console.pathname = "pgbouncer";
  await runSql(console.href, "RECONNECT");
}

/** As gateway/docs/operating.md says: at least the connections of all processes. */
const MANY_SESSIONS = 20;

export type PooledGateway = Awaited<ReturnType<typeof startPooledGateway>>;

/** Starts a gateway with the default size of the pool on such a database. `services` bypass PgBouncer. */
export async function startPooledGateway(binary: string, serverUrl?: string) {
  const pooled = await startPooledDatabase(binary, { sessions: MANY_SESSIONS, ...(serverUrl && { serverUrl }) });
  const env = {
    DATABASE_URL: pooled.url,
    DATABASE_DIRECT_URL: pooled.directUrl,
    DATABASE_PREPARED: "false",
    DATABASE_POOL_SIZE: "10",
  };
  await prepareDatabase({ ...readSettings(env), DATABASE_URL: pooled.url, APP_SECRETS: [TEST_SECRET] }, () => {});
  await reconnect(pooled);
  const { services, key, listing, env: gatewayEnv } = await makeFixture(pooled.directUrl, env);
  const { url, process } = await startGatewayProcess(gatewayEnv);
  return { services, key: key.key, listingId: listing.id, url, process };
}
