import { randomBytes } from "node:crypto";
import { join } from "node:path";
import pg from "pg";
import { startEmbedded } from "../../gateway/dev/embedded.js";
import { migrate } from "../../prisma/migrate.js";
import { fill, isFilled } from "./fill.js";
import { dataFolder, progress } from "./report.js";

export interface Database {
  /** postgres:// address of the filled database. */
  url: string;
  /** A connection for the benchmark itself. */
  client: pg.Client;
  /** Process id of the postmaster. */
  postmasterPid: number;
}

const SETTINGS = {
  shared_buffers: "512MB",
  effective_cache_size: "2GB",
  max_wal_size: "8GB",
  // No background work during a measurement: the benchmark itself vacuums and checkpoints after it writes.
  checkpoint_timeout: "1h",
  autovacuum: "off",
  // `commit_delay`, which only the benchmark of the outbox sets, delays every commit, not only those with five others beside them.
  commit_siblings: "0",
};

const startPostgres = () =>
  startEmbedded({
    dataDir: join(dataFolder(), "postgres"),
    durable: true,
    settings: SETTINGS,
    onProgress: progress,
  });

/** Opens the migrated database of the outbox's benchmark. */
export async function openOutboxDatabase(): Promise<{ database: Database; close(): Promise<void> }> {
  const server = await startPostgres();
  try {
    const { url, client } = await openMigrated(server.url, "guest_forms_bench_outbox");
    return {
      database: { url, client, postmasterPid: server.pid },
      close: () => client.end().finally(() => server.stop()),
    };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** Opens a database with each of these numbers of forms on an embedded server, and fills it if necessary. */
export async function openDatabases(sizes: number[]): Promise<{ databases: Database[]; close(): Promise<void> }> {
  const server = await startPostgres();
  const databases: Database[] = [];
  const close = async () => {
    await Promise.all(databases.map(({ client }) => client.end())).finally(() => server.stop());
  };
  try {
    for (const forms of sizes) {
      const { url, client } = await openDatabase(server.url, forms);
      databases.push({ url, client, postmasterPid: server.pid });
    }
    return { databases, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openDatabase(serverUrl: string, forms: number) {
  const { url, client } = await openMigrated(serverUrl, `guest_forms_bench_${forms}`);
  if (!(await isFilled(client, forms))) await fill(client, forms);
  await client.query("CHECKPOINT");
  return { url, client };
}

async function openMigrated(serverUrl: string, name: string) {
  const url = await createDatabase(serverUrl, name);
  await migrate(url, { onProgress: progress });
  const client = new pg.Client({ connectionString: url });
  // Without a listener, a lost connection would exit the process and leave servers running.
  client.on("error", () => {});
  await client.connect();
  // Every run has its own secret.
  await client.query("TRUNCATE secret_checks");
  return { url, client };
}

async function createDatabase(serverUrl: string, name: string): Promise<string> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  try {
    const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = $1", [name]);
    if (!rowCount) await client.query(`CREATE DATABASE "${name}" TEMPLATE template0`);
    // Sessions must be in UTC, also for the peers, because Prisma's adapter stores instants without an offset.
    await client.query(`ALTER DATABASE "${name}" SET timezone TO 'UTC'`);
  } finally {
    await client.end();
  }
  const url = new URL(serverUrl);
  url.pathname = name;
  return url.href;
}

/** The root secret of this run, shared by all servers, so that they return equal cursors and fingerprints. */
export const runSecret = randomBytes(32).toString("base64url");

/** Tables that creates write to. */
const TABLES = ["forms", "scoped_forms", "creations", "idempotency_keys", "audit_entries", "emails"];

/** Returns a function that deletes all rows created after this call, so that every turn starts with the same database. */
export async function prepareUndo(client: pg.Client): Promise<() => Promise<void>> {
  const { rows } = await client.query<{ now: string; audit_id: string }>(
    "SELECT clock_timestamp()::text AS now, (SELECT coalesce(max(id), 0) FROM audit_entries)::text AS audit_id",
  );
  const [start] = rows;
  return async () => {
    await client.query("DELETE FROM forms WHERE created_at >= $1::timestamptz", [start?.now]);
    await client.query("DELETE FROM audit_entries WHERE id > $1::bigint", [start?.audit_id]);
    for (const table of TABLES) await client.query(`VACUUM ${table}`);
    await client.query("CHECKPOINT");
  };
}
