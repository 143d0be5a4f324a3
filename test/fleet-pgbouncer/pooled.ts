import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, inject } from "vitest";
import { Server } from "../fleet/servers.js";
import { freePort } from "../harness.js";

export const PASSWORD = "not-a-secret";
/** What PgBouncer calls the database; not its name. */
export const ALIAS = "forms";
/** Fewer than the clients, so that they share them. */
const SESSIONS = 4;

export interface Pooled {
  /** Through PgBouncer. */
  url: string;
  /** Past it. */
  directUrl: string;
  /** The superuser's, past it. */
  adminUrl: string;
  role: string;
  database: string;
}

const undo: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const step of undo.reverse()) await step();
});

/** An empty database that an ordinary role owns, its time zone not UTC, behind a PgBouncer of its own. */
export async function startPooled(binary: string): Promise<Pooled> {
  const role = `guest_forms_app_${randomBytes(4).toString("hex")}`;
  const database = `${inject("template")}_${randomBytes(4).toString("hex")}`;
  const server = new URL(inject("serverUrl"));
  await runSql(server.href, `CREATE ROLE ${role} LOGIN PASSWORD '${PASSWORD}'`);
  undo.push(() => runSql(server.href, `DROP ROLE ${role}`));
  await runSql(server.href, `CREATE DATABASE ${database} OWNER ${role} TEMPLATE template0`);
  undo.push(() => runSql(server.href, `DROP DATABASE ${database} WITH (FORCE)`));
  await runSql(server.href, `ALTER DATABASE ${database} SET timezone TO 'America/New_York'`);
  const port = await freePort();
  await startPgBouncer(binary, port, server, role, database);
  const at = (path: string, user: string, password: string, host = server.host) =>
    `postgres://${user}:${password}@${host}/${path}`;
  const admin = new URL(server);
  admin.pathname = database;
  return {
    url: at(ALIAS, role, PASSWORD, `127.0.0.1:${port}`),
    directUrl: at(database, role, PASSWORD),
    adminUrl: admin.href,
    role,
    database,
  };
}

async function startPgBouncer(binary: string, port: number, server: URL, role: string, database: string) {
  const folder = await mkdtemp(join(tmpdir(), "guest-forms-pgbouncer-"));
  undo.push(() => rm(folder, { recursive: true, force: true }));
  // It will not run as root.
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
default_pool_size = ${SESSIONS}
max_client_conn = 200
`,
  );
  const asOther = process.getuid?.() === 0 ? ["-u", "postgres"] : [];
  await new Server(binary, [...asOther, ini], port).start();
}

/** What its operator does after the first `migrate`: sessions open already are replaced. */
export async function reconnect(pooled: Pooled): Promise<void> {
  const console = new URL(pooled.url);
  console.pathname = "pgbouncer";
  await runSql(console.href, "RECONNECT");
}

/** Runs statements on a connection of their own, without any settings of ours. */
export async function runSql<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}
