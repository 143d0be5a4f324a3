import { spawnSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { open, rm, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sendRequest } from "../support/http-client.js";
import { findViolations } from "./postgres-invariants.js";
import { PostgresService } from "./postgres-service.js";
import type { Traffic } from "./postgres-traffic.js";

const DISK_MEGABYTES = 200;
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
  let service: PostgresService;
  let traffic: Traffic;

  beforeAll(async () => {
    service = await PostgresService.start({
      cluster: { dataDir: join(diskPath, "data"), settings: SETTINGS },
    });
    traffic = service.createTraffic({
      perSecond: 60,
      mix: { create: 50, repeat: 5, update: 15, list: 10, fetch: 15, listing: 5 },
      seed: 8,
    });
  });
  afterAll(() => service.close());

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
    const { listing, key } = service.fixture;
    const acknowledged = traffic.creates.filter(({ form }) => form);
    const id = acknowledged[0]?.form?.id;
    for (const path of ["/v1/forms?limit=20", `/v1/forms/${id}`, `/v1/listings/${listing.id}`]) {
      const { status } = await sendRequest(`${service.gateway(0).url}${path}`, key.key);
      expect([path, status]).toEqual([path, 200]);
    }
    const whileFull = await findViolations(service.cluster.url, acknowledged);
    expect(whileFull.violations).toEqual([]);
    expect(whileFull.forms).toBe(acknowledged.length);
    await rm(fillerPath);
    await service.expectNoViolations("Disk full, tables cannot grow", traffic, during());
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
    if (!service.cluster.isRunning()) await service.cluster.start();
    await expect
      .poll(() => traffic.samples.slice(-20).every(({ status }) => status < 300), { timeout: 20_000 })
      .toBe(true);
    await traffic.stop();
    await service.expectNoViolations("Disk full, Postgres crashed", traffic, during);
  });

  /** Switches WAL segments until there is no space for one, which crashes Postgres. */
  async function exhaustWal(): Promise<void> {
    const client = new pg.Client({ connectionString: service.cluster.url });
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
