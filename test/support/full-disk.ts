import { rename, symlink } from "node:fs/promises";
import { join } from "node:path";
import { migrate } from "../../prisma/migrate.js";
import { afterFile } from "./after-file.js";
import { PostgresCluster } from "./postgres-cluster.js";
import { runSql } from "./run-sql.js";

const FILES =
  "SELECT pg_relation_filepath(name) AS path FROM unnest('{pg_largeobject, audit_entries}'::regclass[]) name";

/** A database of its own. After `fill`, neither another large object nor another row of the audit trail has space. */
export async function openDatabaseOnDisk() {
  const cluster = await PostgresCluster.create();
  afterFile(() => cluster.remove());
  await migrate(cluster.url);
  return {
    url: cluster.url,
    async fill() {
      const files = await runSql<{ path: string }>(cluster.url, FILES);
      await cluster.stop("SIGINT");
      for (const { path } of files) {
        const file = join(cluster.dataDir, "cluster", path);
        await rename(file, `${file}.kept`);
        await symlink("/dev/full", file);
      }
      await cluster.start();
    },
  };
}
