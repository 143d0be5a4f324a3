import pg from "pg";
import { startEmbedded } from "../../gateway/dev/embedded.js";
import { migrate } from "../../prisma/migrate.js";
import { runSql } from "../support/run-sql.js";
import { dataFolder, progress } from "./report.js";

export interface Database {
  /** postgres:// address. */
  url: string;
  /** A connection for the benchmark itself. */
  client: pg.Client;
  /** Process id of the postmaster. */
  postmasterPid: number;
  dataDir: string;
}

export const SETTINGS = {
  shared_buffers: "512MB",
  effective_cache_size: "2GB",
  max_wal_size: "8GB",
  // No background work during a measurement: the benchmark itself vacuums and checkpoints after it writes.
  checkpoint_timeout: "1h",
  autovacuum: "off",
  // `commit_delay`, which only the benchmark of the outbox sets, delays every commit, not only those with five others beside them.
  commit_siblings: "0",
};

let server: ReturnType<typeof startEmbedded> | undefined;

/** Opens a migrated database of the benchmark's server, which ends with this process. */
export async function openDatabase(label: string): Promise<Database> {
  const dataDir = `${dataFolder()}/postgres`;
  server ??= startEmbedded({ dataDir, durable: true, settings: SETTINGS, onProgress: progress });
  const { url: serverUrl, pid, dataDir: folder } = await server;
  const name = `guest_forms_bench_${label}`;
  const [existing] = await runSql(serverUrl, "SELECT FROM pg_database WHERE datname = $1", [name]);
  if (!existing) await runSql(serverUrl, `CREATE DATABASE "${name}" TEMPLATE template0`);
  // Sessions must be in UTC, also those of peer T, because Prisma's adapter stores instants without an offset.
  await runSql(serverUrl, `ALTER DATABASE "${name}" SET timezone TO 'UTC'`);
  const url = new URL(`/${name}`, serverUrl).href;
  await migrate(url, { onProgress: progress });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  // Every run has its own secret.
  await client.query("TRUNCATE secret_checks");
  return { url, client, postmasterPid: pid, dataDir: folder };
}
