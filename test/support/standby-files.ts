import { chown, cp, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";

/** An embedded Postgres. */
interface Primary {
  /** postgres:// URL of any of its databases. */
  url: string;
  dataDir: string;
}

/** Copies a running primary. Returns the data folder of a standby, and the settings with which it streams from the primary. */
export async function copyAsStandby(primary: Primary) {
  const dataDir = await mkdtemp(join(tmpdir(), "guest-forms-standby-"));
  const folder = join(dataDir, "cluster");
  const { uid, gid } = await stat(join(primary.dataDir, "cluster"));
  const label = await whileBackedUp(primary.url, async () => {
    for (const name of ["cluster", "password"])
      await cp(join(primary.dataDir, name), join(dataDir, name), { recursive: true, preserveTimestamps: true });
  });
  await rm(join(folder, "postmaster.pid"), { force: true });
  await writeFile(join(folder, "backup_label"), label);
  await writeFile(join(folder, "standby.signal"), "");
  await chownAll(dataDir, uid, gid);
  const { hostname, port, username, password } = new URL(primary.url);
  const address = `host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}`;
  return { dataDir, settings: { primary_conninfo: address, wal_retrieve_retry_interval: "100ms" } };
}

/** Returns the label of a backup during which `work` ran. */
async function whileBackedUp(url: string, work: () => Promise<void>): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query("SELECT pg_backup_start('standby', fast => true)");
    await work();
    const { rows } = await client.query("SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)");
    return rows[0].labelfile;
  } finally {
    await client.end();
  }
}

async function chownAll(path: string, uid: number, gid: number): Promise<void> {
  await chown(path, uid, gid);
  if (!(await stat(path)).isDirectory()) return;
  for (const name of await readdir(path)) await chownAll(join(path, name), uid, gid);
}
