import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { expectNothingLost } from "../support/acknowledged.js";
import { afterFile } from "../support/after-file.js";
import { findCommand } from "../support/describe-with-binary.js";
import { createRedis } from "../support/external-server.js";
import { asOperator, makeListing, openTestServices } from "../support/factories.js";
import { makeFixture } from "../support/gateway-processes.js";
import { mailEnv, openMailServer } from "../support/mail-server.js";
import { restartablePort } from "../support/network.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { scale } from "../support/rounds.js";
import { makeTempFolder } from "../support/run-tool.js";
import { waitForEmails } from "../support/service.js";
import { ServiceProcess } from "../support/service-process.js";
import { countValues, quantile, seededRandom } from "../support/statistics.js";
import { countStatuses, Traffic } from "../support/traffic.js";
import { openReceiver } from "../support/webhook-receiver.js";
import { startInjector } from "./soak-fault-injector.js";
import { judgeMemory, MIN_SOAK_MINUTES, memoryProbeEnv, readSamples } from "./soak-memory.js";
import { checkEmails, checkWebhooks } from "./soak-messages.js";

// `npm run soak` runs this test only. SOAK_SEED repeats the order of requests and faults.
const MINUTES = readNumber("SOAK_MINUTES", scale(MIN_SOAK_MINUTES));
const SEED = readNumber("SOAK_SEED", 1 + Math.floor(Math.random() * 1e9));
const PER_SECOND = readNumber("SOAK_RATE", 100);

const MIX = { create: 25, repeat: 10, update: 20, list: 10, fetch: 25, listing: 10 };
const LISTINGS = 5;
/** Longer than the minute in which a killed worker's emails are taken over. */
const EMAIL_TIMEOUT_MS = 120_000;
const MAX_RECOVERY_MS = 2_000;
const AFTER_LOAD_MS = 300_000;

function readNumber(name: string, otherwise: number): number {
  const value = Number(process.env[name] || otherwise);
  if (!(value > 0)) throw new Error(`${name} must be a number above 0.`);
  return value;
}

/** Starts everything that the service needs, and a key holder with some listings and a webhook. */
async function startDependencies() {
  // Redis is used if it is installed.
  const redisBinary = findCommand("redis-server");
  const redis = redisBinary ? createRedis(redisBinary, await restartablePort()) : undefined;
  await redis?.start();
  const mailServer = await openMailServer();
  const receiver = await openReceiver();
  const cluster = await PostgresCluster.create();
  afterFile(() => cluster.remove());
  await migrate(cluster.url);
  const { services, userId, listing, key, env } = await makeFixture(cluster.url, {
    LOG_LEVEL: "warn",
    ...mailEnv(mailServer.url),
    WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true",
    ...(redis && { REDIS_URL: `redis://127.0.0.1:${redis.port}` }),
  });
  const { webhooks } = asOperator(await openTestServices(env));
  receiver.secrets.push((await webhooks.create({ url: receiver.url })).secret);
  const listingIds = [listing.id];
  while (listingIds.length < LISTINGS) listingIds.push((await makeListing(services, userId)).id);
  return { redis, mailServer, receiver, cluster, key: key.key, env, listingIds };
}

it(
  "under mixed load with random faults, every response matches the contract, the database matches every acknowledged response, every guest gets an email, every create is heard by a webhook, every gateway recovers within 2 s of a restart of Postgres, and no process leaks memory",
  async () => {
    const { redis, mailServer, receiver, cluster, key, env, listingIds } = await startDependencies();
    const folder = await makeTempFolder("soak");
    const memoryFile = (name: string) => join(folder, `${name}.memory`);
    const create = (name: string, role: "gateway" | "worker", more: Record<string, string>) =>
      new ServiceProcess(name, role, { ...env, ...more });
    const ports = [await restartablePort(), await restartablePort()];
    const steady = [
      create("steady gateway", "gateway", { PORT: `${ports[0]}`, ...memoryProbeEnv(memoryFile("steady gateway")) }),
      create("steady worker", "worker", memoryProbeEnv(memoryFile("steady worker"))),
    ];
    const gateway = create("killed gateway", "gateway", { PORT: `${ports[1]}` });
    const worker = create("killed worker", "worker", {});
    const processes = [...steady, gateway, worker];
    for (const each of processes) await each.start();

    console.info(`Soak of ${MINUTES} minutes, SOAK_SEED=${SEED}`);
    const startedAt = performance.now();
    const traffic = new Traffic({
      urls: ports.map((port) => `http://127.0.0.1:${port}`),
      key,
      listingIds,
      perSecond: PER_SECOND,
      mix: MIX,
      seed: SEED,
      expectsConnectionErrors: true,
    });
    const injector = startInjector({ cluster, gateway, worker, redis, traffic }, seededRandom(SEED + 1));
    await sleep(MINUTES * 60_000);
    const injected = await injector.stop();
    // The last fault may have been a restart of Postgres.
    await sleep(MAX_RECOVERY_MS);
    const sentPerSecond = (1_000 * traffic.sent) / (performance.now() - startedAt);
    await traffic.stop();
    const memory = await Promise.all(
      steady.map(async ({ name }) => ({ name, ...judgeMemory(await readSamples(memoryFile(name))) })),
    );
    const { forms } = await expectNothingLost(traffic, cluster.url);
    traffic.closeConnections();
    await waitForEmails(cluster.url, EMAIL_TIMEOUT_MS);

    const recoveriesMs = injected.flatMap(({ acceptingAt: at }) => (at ? traffic.servedAgainAt(at) - at : []));
    const latencies = traffic.samples.map(({ sentAt, receivedAt }) => receivedAt - sentAt);
    const faults = countValues(injected.map(({ kind }) => kind));
    console.info({
      requestsPerSecond: Math.round(sentPerSecond),
      responses: countStatuses(traffic.samples),
      latencyMs: [0.5, 0.99, 1].map((q) => Math.round(quantile(latencies, q))),
      faults,
      recoveriesMs: recoveriesMs.map(Math.round),
      forms,
      emails: mailServer.received.length,
      webhooks: receiver.received.length,
    });
    console.info("Minimum memory in MB per quarter:", JSON.stringify(memory));
    expect([
      ...checkEmails(mailServer.received, traffic.creates, injected),
      ...checkWebhooks(receiver.received, traffic.creates),
      ...receiver.errors,
      ...processes.flatMap(({ unexpectedExits }) => unexpectedExits),
    ]).toEqual([]);
    for (const { name, verdict } of memory) expect([name, verdict]).toEqual([name, "steady"]);
    expect(Math.max(...recoveriesMs), "ms from a restart of Postgres until every gateway succeeds").toBeLessThan(
      MAX_RECOVERY_MS,
    );
    expect(sentPerSecond).toBeGreaterThan(0.9 * PER_SECOND);
    expect(Object.keys(faults).length).toBeGreaterThan(6);
    if (process.env.CI) expect(faults).toHaveProperty("Redis killed");
  },
  MINUTES * 60_000 + AFTER_LOAD_MS,
);
