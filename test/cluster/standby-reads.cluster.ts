import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { requestTimeoutMs } from "../../gateway/http/deadline.js";
import { migrate } from "../../prisma/migrate.js";
import { readSettings } from "../../server/config.js";
import type { ReadPlace } from "../../server/database/reads.js";
import { openServices } from "../../server/services.js";
import { TEST_SECRET } from "../support/factories.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { runSql } from "../support/run-sql.js";
import { addStandby } from "../support/standby.js";
import { TcpProxy } from "../support/tcp-proxy.js";
import { ObservedService } from "./observed-service.js";

// Two processes that write to a primary and read from its standby, which is delayed, paused, cut off, frozen, killed and promoted.
// HISTORY_MINUTES sets how long.

const MINUTES = Number(process.env.HISTORY_MINUTES || 1);
const EPOCH_MS = 15_000;
/** For the last fault to end. */
const EXTRA_MS = 120_000;

const primary = await PostgresCluster.create();
await migrate(primary.url);
// A deferred trigger runs at COMMIT, so forms commit in another order than that of their `createdAt`.
await runSql(
  primary.url,
  `CREATE FUNCTION commit_late() RETURNS trigger LANGUAGE plpgsql AS $$
     BEGIN PERFORM pg_sleep(random() * 0.05); RETURN NULL; END $$;
   CREATE CONSTRAINT TRIGGER commit_late AFTER INSERT ON forms DEFERRABLE INITIALLY DEFERRED
     FOR EACH ROW EXECUTE FUNCTION commit_late()`,
);
let standby = await addStandby(primary);
const proxy = await TcpProxy.start(standby.url);
const places = new Map<ReadPlace, number>();
const onRead = (place: ReadPlace) => places.set(place, (places.get(place) ?? 0) + 1);
const SETTINGS = readSettings({
  APP_SECRETS: TEST_SECRET,
  DATABASE_URL: primary.url,
  DATABASE_REPLICA_URL: proxy.url,
});
const processes = await Promise.all([1, 2].map(() => openServices(SETTINGS, { warn: () => {} }, { onRead })));
afterAll(async () => {
  for (const { close } of processes) await close();
  await standby.remove();
  await primary.remove();
});

const CANCELLED_BY_REPLAY = "40001";

const onStandby = async (sql: string): Promise<unknown> =>
  runSql(standby.url, sql).catch((error) => {
    if (error.code === CANCELLED_BY_REPLAY) return onStandby(sql);
    throw error;
  });
const delayReplay = async (ms: number) => {
  await onStandby(`ALTER SYSTEM SET recovery_min_apply_delay = ${ms}`);
  await onStandby("SELECT pg_reload_conf()");
};

const FAULTS: Record<string, (wait: () => Promise<unknown>) => Promise<void>> = {
  async paused(wait) {
    await onStandby("SELECT pg_wal_replay_pause()");
    await wait();
    await onStandby("SELECT pg_wal_replay_resume()");
  },
  async delayed(wait) {
    await delayReplay(Math.ceil(Math.random() * 20));
    await wait();
    await delayReplay(0);
  },
  async cut(wait) {
    proxy.cut();
    await wait();
    proxy.restore();
  },
  async frozen(wait) {
    standby.freeze();
    await wait();
    standby.unfreeze();
  },
  async killed(wait) {
    await standby.stop("SIGKILL");
    await wait();
    await standby.start();
  },
  async promoted(wait) {
    await onStandby("SELECT pg_promote()");
    await wait();
    const old = standby;
    standby = await addStandby(primary);
    proxy.retarget(standby.url);
    proxy.restore();
    await old.remove();
  },
};

test(
  "every read succeeds in time and has all that was acknowledged before it and nothing that was not written, and cursors never skip a form, whatever happens to the standby",
  async () => {
    const until = performance.now() + MINUTES * 60_000;
    const faults = Object.keys(FAULTS);
    let count = 0;
    let slowestMs = 0;
    let isOver = false;
    const injectFaults = async () => {
      for (let n = 0; !isOver; n++) {
        await sleep(500 + Math.random() * 3_000);
        await FAULTS[faults[n % faults.length] ?? ""]?.(() => sleep(Math.random() * 1_500));
      }
    };
    const injecting = injectFaults();
    try {
      while (performance.now() < until) {
        const observed = new ObservedService(processes.map(({ services }) => services));
        await observed.run(Math.min(EPOCH_MS, until - performance.now()));
        count += observed.reads;
        slowestMs = Math.max(slowestMs, observed.slowestMs);
      }
    } finally {
      isOver = true;
      await injecting;
    }
    console.info(`${count} reads compared; by place: ${JSON.stringify(Object.fromEntries(places))}`);
    expect(slowestMs, "ms of the slowest read").toBeLessThan(requestTimeoutMs(SETTINGS));
    for (const place of ["standby", "recent", "behind", "failed", "unused"] as const)
      expect([place, (places.get(place) ?? 0) > 0]).toEqual([place, true]);
  },
  MINUTES * 60_000 + EXTRA_MS,
);
