import { PostgresCluster } from "./postgres-cluster.js";
import { runSql } from "./run-sql.js";
import { copyAsStandby } from "./standby-files.js";

/** Adds a standby to a primary. */
export async function addStandby(primary: PostgresCluster): Promise<PostgresCluster> {
  const { dataDir, settings } = await copyAsStandby(primary);
  return PostgresCluster.create({ dataDir, settings: { ...settings, max_standby_streaming_delay: "100ms" } });
}

/** Whether the standby has replayed what the primary has flushed. */
export async function isCaughtUp(primary: PostgresCluster, standby: PostgresCluster): Promise<boolean> {
  const [{ at } = { at: "" }] = await runSql<{ at: string }>(primary.url, "SELECT pg_current_wal_flush_lsn() AS at");
  const [row] = await runSql<{ is: boolean }>(standby.url, "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS is", [at]);
  return row?.is ?? false;
}
