import { expect, test } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { afterFile } from "../support/after-file.js";
import { openTestCore } from "../support/core.js";
import { PostgresCluster } from "../support/postgres-cluster.js";

// Commits wait for a standby that does not exist, as for a very slow disk.
const WITHOUT_STANDBY = "ALTER SYSTEM RESET synchronous_standby_names";
const WITH_ABSENT_STANDBY = "ALTER SYSTEM SET synchronous_standby_names = 'absent'";
const RELOAD = "SELECT pg_reload_conf()";
const WAITING_COMMITS = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

const cluster = await PostgresCluster.create();
afterFile(() => cluster.remove());
await migrate(cluster.url);
const { owner, sql } = await openTestCore({ DATABASE_URL: cluster.url });

test("a create waits until its commit is stored, but a replay that stores nothing does not", async () => {
  const { form } = await owner.create(owner.body, "known");
  await sql(WITH_ABSENT_STANDBY);
  await sql(RELOAD);
  const created = owner.addForm();
  await expect.poll(() => sql(WAITING_COMMITS)).toHaveLength(1);
  for (const key of [undefined, "known"]) expect(await owner.create(owner.body, key)).toEqual({ form, replayed: true });
  const bound = owner.create(owner.body, "new");
  await expect.poll(() => sql(WAITING_COMMITS)).toHaveLength(2);
  await sql(WITHOUT_STANDBY);
  await sql(RELOAD);
  expect(await bound).toEqual({ form, replayed: true });
  await created;
});
