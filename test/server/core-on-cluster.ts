import { migrate } from "../../prisma/migrate.js";
import { afterFile } from "../support/after-file.js";
import { openTestCore } from "../support/core.js";
import { PostgresCluster } from "../support/postgres-cluster.js";

/** Opens the core on a Postgres of its own, with these settings of Postgres. */
export async function openCoreOnCluster(settings: Record<string, string>) {
  const cluster = await PostgresCluster.create({ settings });
  afterFile(() => cluster.remove());
  await migrate(cluster.url);
  return openTestCore({ DATABASE_URL: cluster.url });
}

/** Opens the core on a Postgres that waits before it writes a commit to the disk. */
export async function openCoreWithSlowDisk() {
  const delayMs = 100;
  const core = await openCoreOnCluster({ commit_delay: `${delayMs * 1000}`, commit_siblings: "0" });
  const msOf = async (work: () => Promise<unknown>) => {
    const began = performance.now();
    await work();
    return performance.now() - began;
  };
  return { ...core, delayMs, msOf };
}
