import { expect, test } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { afterFile } from "../support/after-file.js";
import { openTestCore } from "../support/core.js";
import { catchErrorCode, openTestServices } from "../support/factories.js";
import { PostgresCluster } from "../support/postgres-cluster.js";

async function openCoreOnCluster(settings: Record<string, string>) {
  const cluster = await PostgresCluster.create({ settings });
  afterFile(() => cluster.remove());
  await migrate(cluster.url);
  return openTestCore({ DATABASE_URL: cluster.url });
}

test("a create waits for the disk, and a replay that stores nothing does not", async () => {
  const COMMIT_DELAY_MS = 100;
  const { owner } = await openCoreOnCluster({ commit_delay: `${COMMIT_DELAY_MS * 1000}`, commit_siblings: "0" });
  const { form } = await owner.create(owner.body, "known");
  const msOf = async (work: () => Promise<unknown>) => {
    const began = performance.now();
    await work();
    return performance.now() - began;
  };
  expect(await msOf(() => owner.addForm())).toBeGreaterThan(COMMIT_DELAY_MS);
  expect(await msOf(() => owner.create(owner.body, "new"))).toBeGreaterThan(COMMIT_DELAY_MS);
  for (const key of [undefined, "known", "new"]) {
    const replay = async () => expect(await owner.create(owner.body, key)).toEqual({ form, replayed: true });
    // The fastest of some, for a busy machine.
    const durations: number[] = [];
    for (let n = 0; n < 10; n++) durations.push(await msOf(replay));
    expect(Math.min(...durations)).toBeLessThan(COMMIT_DELAY_MS);
  }
});

test("with a synchronous standby, such a replay waits for it", async () => {
  const { owner, services, sql } = await openCoreOnCluster({
    synchronous_standby_names: "absent",
    synchronous_commit: "local",
  });
  await owner.create(owner.body, "known");
  const replicated = await openTestServices({
    DATABASE_URL: `${services.db.url}?options=${encodeURIComponent("-c synchronous_commit=on")}`,
  });
  const interrupted = catchErrorCode(owner.create(owner.body, "known", replicated));
  const WAITING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
  await expect.poll(() => sql(`SELECT pid ${WAITING}`), { timeout: 5_000 }).toHaveLength(1);
  await sql(`SELECT pg_terminate_backend(pid) ${WAITING}`);
  expect(await interrupted).toBe("INTERNAL_ERROR");
});
