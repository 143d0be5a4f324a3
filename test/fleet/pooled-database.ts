import { randomBytes } from "node:crypto";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import { afterFile } from "../support/after-file.js";
import { ExternalServer } from "../support/external-server.js";
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

/** Creates an empty database, owned by an ordinary role and not in UTC, behind its own PgBouncer. */
export async function startPooledDatabase(binary: string, sessions = FEW_SESSIONS): Promise<PooledDatabase> {
  const role = `guest_forms_app_${randomBytes(4).toString("hex")}`;
  const database = `${inject("template")}_${randomBytes(4).toString("hex")}`;
  const server = new URL(inject("serverUrl"));
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
