import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { findCommand } from "../support/describe-with-binary.js";
import { createRedis, type ExternalServer } from "../support/external-server.js";
import { makeListing } from "../support/factories.js";
import { mailEnv, openMailServer } from "../support/mail-server.js";
import { restartablePort } from "../support/network.js";
import { makeTempFolder } from "../support/run-tool.js";
import { countValues, quantile, seededRandom } from "../support/statistics.js";
import { countPendingNotifications } from "./emails.js";
import { findViolations } from "./postgres-invariants.js";
import { PostgresService } from "./postgres-service.js";
import { countStatuses, Traffic } from "./postgres-traffic.js";
import { scaleRounds } from "./rounds.js";
import { checkEmails } from "./soak-emails.js";
import { FaultInjector } from "./soak-fault-injector.js";
import { judgeMemory, MIN_SOAK_MINUTES, memoryProbeEnv, readSamples } from "./soak-memory.js";
import { SoakProcess } from "./soak-process.js";

// `npm run soak` runs this test only. SOAK_SEED repeats the order of requests and faults.
const MINUTES = readNumber("SOAK_MINUTES", scaleRounds(10, MIN_SOAK_MINUTES));
const SEED = readNumber("SOAK_SEED", 1 + Math.floor(Math.random() * 1e9));
const PER_SECOND = readNumber("SOAK_RATE", 100);

const MIX = { create: 25, repeat: 10, update: 20, list: 10, fetch: 25, listing: 10 };
const LISTINGS = 5;
/** Longer than the minute in which a killed worker's notifications are taken over. */
const EMAIL_TIMEOUT_MS = 120_000;
const AFTER_LOAD_MS = 300_000;
const PROGRESS_INTERVAL_MS = 60_000;

function readNumber(name: string, otherwise: number): number {
  const value = Number(process.env[name] || otherwise);
  if (!(value > 0)) throw new Error(`${name} must be a number above 0.`);
  return value;
}

/** Redis is used if it is installed. */
async function startRedis(): Promise<ExternalServer | undefined> {
  const binary = findCommand("redis-server");
  if (!binary) return undefined;
  const redis = createRedis(binary, await restartablePort());
  await redis.start();
  return redis;
}

it(
  "under mixed load with random faults, every response matches the contract, the database matches every acknowledged response, every guest gets an email, and no process leaks memory",
  async () => {
    const folder = await makeTempFolder("soak");
    const redis = await startRedis();
    const mailServer = await openMailServer();
    const { cluster, fixture } = await PostgresService.start({
      gateways: 0,
      settings: {
        LOG_LEVEL: "warn",
        ...mailEnv(mailServer.url),
        ...(redis && { REDIS_URL: `redis://127.0.0.1:${redis.port}` }),
      },
    });
    const listingIds = [fixture.listing.id];
    while (listingIds.length < LISTINGS)
      listingIds.push((await makeListing(fixture.services, fixture.userId)).id);

    const ports = [await restartablePort(), await restartablePort()];
    const memoryFile = (name: string) => join(folder, `${name}.memory`);
    const gateway = (name: string, port = 0, env = {}) =>
      new SoakProcess(name, ["serve", "--no-worker", "--port", `${port}`], /^Listening on/, {
        ...fixture.env,
        ...env,
      });
    const worker = (name: string, env = {}) =>
      new SoakProcess(name, ["worker"], /^Sending notifications/, { ...fixture.env, ...env });
    const steady = [
      gateway("steady gateway", ports[0], memoryProbeEnv(memoryFile("steady gateway"))),
      worker("steady worker", memoryProbeEnv(memoryFile("steady worker"))),
    ];
    const [killedGateway, killedWorker] = [gateway("killed gateway", ports[1]), worker("killed worker")];
    const processes = [...steady, killedGateway, killedWorker];
    for (const each of processes) await each.start();

    const traffic = new Traffic({
      urls: ports.map((port) => `http://127.0.0.1:${port}`),
      key: fixture.key.key,
      listingIds,
      perSecond: PER_SECOND,
      mix: MIX,
      random: seededRandom(SEED),
      expectsConnectionErrors: true,
    });
    const injector = new FaultInjector(
      { cluster, gateway: killedGateway, worker: killedWorker, redis, traffic },
      seededRandom(SEED + 1),
    );
    console.info(`Soak of ${MINUTES} minutes, SOAK_SEED=${SEED}`);
    const progress = setInterval(() => {
      console.info(
        `${traffic.samples.length} responses, ${traffic.violations.length} violations, ${injector.injected.length} faults`,
      );
    }, PROGRESS_INTERVAL_MS);
    const startedAt = performance.now();
    traffic.start();
    injector.start();
    await sleep(MINUTES * 60_000);
    await injector.stop();
    const sentPerSecond = traffic.sentPerSecond(startedAt, performance.now());
    await traffic.stop();
    clearInterval(progress);
    const memory = await Promise.all(
      steady.map(async ({ name }) => ({ name, ...judgeMemory(await readSamples(memoryFile(name))) })),
    );
    await traffic.retryUnacknowledged();
    traffic.close();
    await expect.poll(() => countPendingNotifications(fixture), { timeout: EMAIL_TIMEOUT_MS }).toBe(0);

    const database = await findViolations(cluster.url, traffic.creates);
    const emails = checkEmails(mailServer.received, traffic.creates, injector.injected);
    const latencies = traffic.samples.map(({ sentAt, receivedAt }) => receivedAt - sentAt);
    const faults = countValues(injector.injected.map(({ kind }) => kind));
    console.info({
      requestsPerSecond: Math.round(sentPerSecond),
      responses: countStatuses(traffic.samples),
      brokenConnections: traffic.connectionErrors,
      latencyMs: [0.5, 0.99, 1].map((q) => Math.round(quantile(latencies, q))),
      faults,
      redis: redis ? "used" : "not installed",
      creates: traffic.creates.length,
      forms: database.forms,
      auditEntries: database.auditEntries,
      emails: mailServer.received.length,
      expectedEmails: emails.expected,
      emailsRepeatedByKills: emails.repeatedByKills,
    });
    console.info("Minimum memory in MB per quarter:", JSON.stringify(memory));
    expect([
      ...traffic.violations,
      ...database.violations,
      ...emails.violations,
      ...processes.flatMap(({ unexpectedExits }) => unexpectedExits),
    ]).toEqual([]);
    expect(memory.map(({ name, verdict }) => `${name}: ${verdict}`)).toEqual(
      steady.map(({ name }) => `${name}: steady`),
    );
    expect(sentPerSecond).toBeGreaterThan(0.9 * PER_SECOND);
    expect(Object.keys(faults).length).toBeGreaterThan(6);
    if (process.env.CI) expect(faults).toHaveProperty("Redis killed");
  },
  MINUTES * 60_000 + AFTER_LOAD_MS,
);
