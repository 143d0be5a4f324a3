import { spawnSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { open, rm, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { call } from "../fleet/client.js";
import { type Host, makeWorld, startHosts, type World } from "../fleet/fleet.js";
import { Cluster } from "./postgres-cluster.js";
import { findViolations } from "./postgres-invariants.js";
import { randomFrom, slowestOf, statuses, Traffic } from "./postgres-traffic.js";

const DISK_MEGABYTES = 200;
const ANSWER_MS = 3_000;
/** Small, so that the log of changes has no more room than the tables. */
const SETTINGS = { max_wal_size: "64MB", min_wal_size: "32MB" };

const disk = mkdtempSync(join(tmpdir(), "guest-forms-disk-"));
const mounted = mount();

function mount(): boolean {
  const options = `size=${DISK_MEGABYTES}m,mode=755`;
  const { status, stderr } = spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", disk]);
  if (status !== 0 && process.env.CI) throw new Error(`A disk cannot be mounted: ${stderr}`);
  return status === 0;
}

describe.skipIf(!mounted)("a disk that is full (needs the right to mount one)", () => {
  let cluster: Cluster;
  let world: World;
  let hosts: Host[];
  let traffic: Traffic;

  beforeAll(async () => {
    cluster = await Cluster.create({ dataDir: join(disk, "data"), settings: SETTINGS });
    await migrate(cluster.url);
    world = await makeWorld(cluster.url);
    hosts = await startHosts(2, world.env);
    traffic = new Traffic({
      urls: hosts.map(({ url }) => url),
      key: world.key.key,
      listingIds: [world.listing.id],
      perSecond: 60,
      mix: { create: 50, repeat: 5, update: 15, list: 10, fetch: 15, listing: 5 },
      random: randomFrom(8),
    });
  });
  afterAll(async () => {
    traffic.close();
    await Promise.all(hosts.map(({ process }) => process.stopOrKill()));
    await cluster.remove();
  });

  const filler = join(disk, "filler");

  it("leaves nothing half-written: creates are 503, reads go on, and the same creates succeed once there is room", async () => {
    traffic.start();
    await sleep(500);
    await fill(filler);
    const since = performance.now();
    const during = () => traffic.samples.filter(({ sentAt }) => sentAt > since);
    const refused = () => during().filter(({ status }) => status === 503);
    await expect.poll(() => refused().length, { timeout: 30_000 }).toBeGreaterThan(40);
    await traffic.stop();
    const acknowledged = traffic.entries.filter(({ form }) => form);
    const id = acknowledged[0]?.form?.id;
    for (const path of ["/v1/forms?limit=20", `/v1/forms/${id}`, `/v1/listings/${world.listing.id}`]) {
      const { status } = await call(`${hosts[0]?.url}${path}`, world.key.key);
      expect([path, status]).toEqual([path, 200]);
    }
    const meanwhile = await findViolations(cluster.url, acknowledged);
    expect(meanwhile.violations).toEqual([]);
    expect(meanwhile.forms).toBe(acknowledged.length);
    await rm(filler);
    await settled("The disk full, tables cannot grow", during());
  });

  it("and stops Postgres, is survived: 503 until there is room and Postgres runs again", async () => {
    traffic.start();
    await sleep(500);
    await fill(filler);
    const since = performance.now();
    await exhaustLog();
    await sleep(2_000);
    const during = traffic.samples.filter(({ sentAt }) => sentAt > since);
    expect(during.filter(({ status }) => status === 503).length).toBeGreaterThan(20);
    await rm(filler);
    if (!cluster.isRunning()) await cluster.start();
    await expect
      .poll(() => traffic.samples.slice(-20).every(({ status }) => status < 300), { timeout: 20_000 })
      .toBe(true);
    await traffic.stop();
    await settled("The disk full, Postgres ended by it", during);
  });

  /** Acknowledges what was not, and holds everything against the promises. */
  async function settled(what: string, during: typeof traffic.samples): Promise<void> {
    await traffic.settle();
    const { forms, violations } = await findViolations(cluster.url, traffic.entries);
    console.info(
      `${what}: ${during.length} answers meanwhile ${JSON.stringify(statuses(during))}, slowest ` +
        `${slowestOf(during).toFixed()} ms; ${forms} forms of ${traffic.entries.length} creates`,
    );
    expect([...traffic.violations, ...violations]).toEqual([]);
    expect(slowestOf(during), "milliseconds of the slowest answer").toBeLessThan(ANSWER_MS);
  }

  /** Begins new segments of the log of changes until there is no room for one, which ends Postgres. */
  async function exhaustLog(): Promise<void> {
    const client = new pg.Client({ connectionString: cluster.url });
    const ended = new Promise((resolve) => client.once("end", resolve));
    client.on("error", () => {});
    await client.connect();
    const turn = async () => {
      for (;;) await client.query("SELECT txid_current(), pg_switch_wal()");
    };
    const failure = await turn().catch((error: Error) => error);
    expect(failure.message).toMatch(/No space left on device|terminat/);
    await ended;
  }
});

afterAll(async () => {
  if (mounted) spawnSync("umount", [disk]);
  await rmdir(disk);
});

const MEGABYTE = 1_048_576;

/** Writes a file until the disk has no room for one more page. */
async function fill(path: string): Promise<void> {
  const file = await open(path, "w");
  try {
    for (const size of [MEGABYTE, 4_096]) {
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
