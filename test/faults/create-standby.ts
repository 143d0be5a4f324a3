import { execFileSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { makeTempFolder } from "../support/run-tool.js";

/** Creates a streaming standby from the files of the primary, which is restarted. `settings` are the standby's. */
export async function createStandby(
  cluster: PostgresCluster,
  settings: Record<string, string> = {},
): Promise<PostgresCluster> {
  const dataDir = await makeTempFolder("standby");
  await cluster.stop("SIGINT");
  execFileSync("cp", ["-a", `${cluster.dataDir}/.`, dataDir]);
  await writeFile(join(dataDir, "cluster/standby.signal"), "");
  await cluster.start();
  const { hostname, port, username, password } = new URL(cluster.url);
  const source = `host=${hostname} port=${port} user=${username} password=${password}`;
  return PostgresCluster.create({ dataDir, settings: { primary_conninfo: source, ...settings } });
}
