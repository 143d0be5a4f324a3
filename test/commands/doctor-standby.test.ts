import { expect, test } from "vitest";
import { examine } from "../../gateway/doctor/examine.js";
import { migrate } from "../../prisma/migrate.js";
import { readSettings } from "../../server/config.js";
import { afterFile } from "../support/after-file.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { runSql } from "../support/run-sql.js";
import { addStandby, isCaughtUp } from "../support/standby.js";

const primary = await PostgresCluster.create();
afterFile(() => primary.remove());
await migrate(primary.url);
const standby = await addStandby(primary);
afterFile(() => standby.remove());
const at = `The standby at 127.0.0.1:${standby.port}`;
const FROM_PRIMARY = "Until then, all is read from the primary.";

async function check(replica = standby.url) {
  const settings = readSettings({ DATABASE_URL: primary.url, DATABASE_REPLICA_URL: replica });
  const reports = await examine({ settings, env: {}, processes: 1, worker: true }, ["standby reads"]);
  const { status, message } = reports.find(({ name }) => name === "standby reads") ?? {};
  return [status, message];
}

test("doctor reads from the standby, and says what is wrong with it", async () => {
  await expect.poll(() => isCaughtUp(primary, standby)).toBe(true);
  await expect
    .poll(() => check())
    .toEqual(["ok", expect.stringMatching(`${at} has what the primary has stored: of 5 reads, [1-5] ran there.`)]);
  expect(await check("")).toEqual(["ok", "DATABASE_REPLICA_URL is not set: all is read from the primary."]);
  const [status, message] = await check(primary.url);
  expect([status, message]).toEqual([
    "warning",
    `The standby at 127.0.0.1:${primary.port} cannot be used: the server is no standby. ${FROM_PRIMARY}`,
  ]);
  await runSql(standby.url, "SELECT pg_wal_replay_pause()");
  await runSql(primary.url, "CREATE TABLE written ()");
  expect(await check()).toEqual([
    "warning",
    `${at} is behind the primary, or follows another one: check its replication. ${FROM_PRIMARY}`,
  ]);
  await standby.stop("SIGINT");
  const unreachable = await check();
  expect(unreachable).toEqual([
    "warning",
    expect.stringMatching(/cannot be used: .*ECONNREFUSED.* DATABASE_REPLICA_URL\. Until/),
  ]);
  expect(JSON.stringify(unreachable)).not.toContain(new URL(standby.url).password);
});
