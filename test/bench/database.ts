import { randomBytes } from "node:crypto";
import { join } from "node:path";
import pg from "pg";
import { startEmbedded } from "../../gateway/dev/embedded.js";
import { migrate } from "../../prisma/migrate.js";
import { packageRoot } from "../../prisma/package-root.js";
import { fill, isFilled } from "./fill.js";
import { progress } from "./progress.js";

export interface Database {
  /** postgres:// address of the filled database. */
  url: string;
  /** A session of the bench's own. */
  client: pg.Client;
  /** Process id of the postmaster, where it runs on this machine; its children do the work. */
  postmaster: number | undefined;
  close(): Promise<void>;
}

/** Everything that the bench keeps between runs. */
export const dataFolder = () => join(packageRoot(), ".data", "bench");

const SETTINGS = {
  shared_buffers: "512MB",
  effective_cache_size: "2GB",
  max_wal_size: "8GB",
  // Nothing may start by itself in the middle of a measurement: the bench vacuums where it writes.
  checkpoint_timeout: "1h",
  autovacuum: "off",
};

/**
 * The database with so many forms, filled where it is not yet: on the server that BENCH_DATABASE_URL names (its role
 * must be a superuser), or on an embedded one.
 */
export async function openDatabase(forms: number): Promise<Database> {
  const server = process.env.BENCH_DATABASE_URL
    ? { url: process.env.BENCH_DATABASE_URL, pid: undefined, stop: async () => {} }
    : await startEmbedded({
        dataDir: join(dataFolder(), "postgres"),
        durable: true,
        settings: SETTINGS,
        onProgress: progress,
      });
  try {
    const url = await named(server.url, `guest_forms_bench_${forms}`);
    await migrate(url, { onProgress: progress });
    const client = new pg.Client({ connectionString: url });
    // A connection that is lost fails the next query, not the process: servers are to be stopped.
    client.on("error", () => {});
    await client.connect();
    // Every run has a secret of its own.
    await client.query("TRUNCATE secret_checks");
    if (!(await isFilled(client, forms))) await fill(client, forms);
    await client.query("CHECKPOINT");
    const close = () => client.end().finally(() => server.stop());
    return { url, client, postmaster: server.pid, close };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

async function named(serverUrl: string, name: string): Promise<string> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  try {
    const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = $1", [name]);
    if (!rowCount) await client.query(`CREATE DATABASE "${name}" TEMPLATE template0`);
    // Prisma's adapter stores instants without an offset: the session's zone must be UTC, for the peers too.
    await client.query(`ALTER DATABASE "${name}" SET timezone TO 'UTC'`);
  } finally {
    await client.end();
  }
  const url = new URL(serverUrl);
  url.pathname = name;
  return url.href;
}

/** A root secret for this run's cursors and fingerprints, the same for all servers. */
export const runSecret = randomBytes(32).toString("base64url");
