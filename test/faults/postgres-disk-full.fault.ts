import { spawnSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { open, rm, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { sendRequest, slowestMs } from "../fleet/client.js";
import {
  type Fixture,
  type GatewayProcess,
  makeFixture,
  startGatewayProcesses,
} from "../fleet/gateway-processes.js";
import { PostgresCluster } from "./postgres-cluster.js";
import { findViolations } from "./postgres-invariants.js";
import { countStatuses, seededRandom, Traffic } from "./postgres-traffic.js";

const DISK_MEGABYTES = 200;
const MAX_RESPONSE_MS = 3_000;
/** Small, so that the WAL has no more free space than the tables. */
const SETTINGS = { max_wal_size: "64MB", min_wal_size: "32MB" };

const diskPath = mkdtempSync(join(tmpdir(), "guest-forms-disk-"));
const isMounted = mountDisk();

function mountDisk(): boolean {
  const options = `size=${DISK_MEGABYTES}m,mode=755`;
  const { status, stderr } = spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", diskPath]);
  if (status !== 0 && process.env.CI) throw new Error(`Cannot mount a tmpfs: ${stderr}`);
  return status === 0;
}

describe.skipIf(!isMounted)("a full Postgres disk (needs permission to mount a tmpfs)", () => {
  let cluster: PostgresCluster;
  let fixture: Fixture;
  let gateways: GatewayProcess[];
  let traffic: Traffic;

  beforeAll(async () => {
    cluster = await PostgresCluster.create({ dataDir: join(diskPath, "data"), settings: SETTINGS });
    await migrate(cluster.url);
    fixture = await makeFixture(cluster.url);
    gateways = await startGatewayProcesses(2, fixture.env);
    traffic = new Traffic({
      urls: gateways.map(({ url }) => url),
      key: fixture.key.key,
      listingIds: [fixture.listing.id],
      perSecond: 60,
      mix: { create: 50, repeat: 5, update: 15, list: 10, fetch: 15, listing: 5 },
      random: seededRandom(8),
    });
  });
  afterAll(async () => {
    traffic.close();
    await Promise.all(gateways.map(({ process }) => process.stopOrKill()));
    await cluster.remove();
  });

  const fillerPath = join(diskPath, "filler");

  it("creates get 503 and store nothing partially, reads succeed, and retried creates succeed after space is freed", async () => {
    traffic.start();
    await sleep(500);
    await fillDisk(fillerPath);
    const since = performance.now();
    const during = () => traffic.samples.filter(({ sentAt }) => sentAt > since);
    const unavailable = () => during().filter(({ status }) => status === 503);
    await expect.poll(() => unavailable().length, { timeout: 30_000 }).toBeGreaterThan(40);
    await traffic.stop();
    const acknowledged = traffic.creates.filter(({ form }) => form);
    const id = acknowledged[0]?.form?.id;
    for (const path of ["/v1/forms?limit=20", `/v1/forms/${id}`, `/v1/listings/${fixture.listing.id}`]) {
      const { status } = await sendRequest(`${gateways[0]?.url}${path}`, fixture.key.key);
      expect([path, status]).toEqual([path, 200]);
    }
    const whileFull = await findViolations(cluster.url, acknowledged);
    expect(whileFull.violations).toEqual([]);
    expect(whileFull.forms).toBe(acknowledged.length);
    await rm(fillerPath);
    await expectNoViolations("Disk full, tables cannot grow", during());
  });

  it("if the full disk crashes Postgres, requests get 503 until Postgres runs again, and no acknowledged create is lost", async () => {
    traffic.start();
    await sleep(500);
    await fillDisk(fillerPath);
    const since = performance.now();
    await exhaustWal();
    await sleep(2_000);
    const during = traffic.samples.filter(({ sentAt }) => sentAt > since);
    expect(during.filter(({ status }) => status === 503).length).toBeGreaterThan(20);
    await rm(fillerPath);
    if (!cluster.isRunning()) await cluster.start();
    await expect
      .poll(() => traffic.samples.slice(-20).every(({ status }) => status < 300), { timeout: 20_000 })
      .toBe(true);
    await traffic.stop();
    await expectNoViolations("Disk full, Postgres crashed", during);
  });

  /** Retries failed creates, then asserts all guarantees. */
  async function expectNoViolations(what: string, during: typeof traffic.samples): Promise<void> {
    await traffic.retryUnacknowledged();
    const { forms, violations } = await findViolations(cluster.url, traffic.creates);
    console.info(
      `${what}: ${during.length} responses meanwhile ${JSON.stringify(countStatuses(during))}, slowest ` +
        `${slowestMs(during).toFixed()} ms; ${forms} forms of ${traffic.creates.length} creates`,
    );
    expect([...traffic.violations, ...violations]).toEqual([]);
    expect(slowestMs(during), "slowest response in ms").toBeLessThan(MAX_RESPONSE_MS);
  }

  /** Switches WAL segments until there is no space for one, which crashes Postgres. */
  async function exhaustWal(): Promise<void> {
    const client = new pg.Client({ connectionString: cluster.url });
    const ended = new Promise((resolve) => client.once("end", resolve));
    client.on("error", () => {});
    await client.connect();
    const switchWalForever = async () => {
      for (;;) await client.query("SELECT txid_current(), pg_switch_wal()");
    };
    const failure = await switchWalForever().catch((error: Error) => error);
    expect(failure.message).toMatch(/No space left on device|terminat/);
    await ended;
  }
});

afterAll(async () => {
  if (isMounted) spawnSync("umount", [diskPath]);
  await rmdir(diskPath);
});

const MEGABYTE_BYTES = 1_048_576;

/** Writes a file until the disk has no space for one more page. */
async function fillDisk(path: string): Promise<void> {
  const file = await open(path, "w");
  try {
    for (const size of [MEGABYTE_BYTES, 4_096]) {
      const zeros = Buffer.alloc(size);
      for (;;) {
        const written = await file.write(zeros).catch((error: NodeJS.ErrnoException) => error);
        if (written instanceof Error) {
          if (written.code !== "ENOSPC") throw written;
          break;
        }
      }
    }
  } finally {
    await file.close();
  }
}
