import { expect, test } from "vitest";
import { catchErrorCode, openTestServices } from "../support/factories.js";
import { openCoreOnCluster, openCoreWithSlowDisk } from "./core-on-cluster.js";

test("a create waits for the disk", async () => {
  const { owner, delayMs, msOf } = await openCoreWithSlowDisk();
  expect(await msOf(() => owner.addForm())).toBeGreaterThan(delayMs);
  expect(await msOf(() => owner.create(owner.body, "new"))).toBeGreaterThan(delayMs);
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
