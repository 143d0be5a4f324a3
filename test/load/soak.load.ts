import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { findViolations } from "../support/acknowledged.js";
import { afterFile } from "../support/after-file.js";
import { findCommand } from "../support/describe-with-binary.js";
import { createRedis } from "../support/external-server.js";
import { asOperator, makeListing, openTestServices } from "../support/factories.js";
import { mailEnv, openMailServer } from "../support/mail-server.js";
import { restartablePort } from "../support/network.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { scale } from "../support/rounds.js";
import { makeTempFolder } from "../support/run-tool.js";
import { firstSuccess, startPostgresService } from "../support/service.js";
import { countValues, quantile, seededRandom } from "../support/statistics.js";
import { countStatuses, Traffic } from "../support/traffic.js";
import { openReceiver } from "../support/webhook-receiver.js";
import { checkEmails } from "./soak-emails.js";
import { startInjector } from "./soak-fault-injector.js";
import { judgeMemory, MIN_SOAK_MINUTES, memoryProbeEnv, readSamples } from "./soak-memory.js";
import { createProcess } from "./soak-process.js";
import { checkWebhooks } from "./soak-webhooks.js";

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

it(
  "under mixed load with random faults, every response matches the contract, the database matches every acknowledged response, every guest gets an email, every create is heard by a webhook, every gateway recovers within 2 s of a restart of Postgres, and no process leaks memory",
  async () => {
    const folder = await makeTempFolder("soak");
    // Redis is used if it is installed.
    const redisBinary = findCommand("redis-server");
    const redis = redisBinary ? createRedis(redisBinary, await restartablePort()) : undefined;
    await redis?.start();
    const mailServer = await openMailServer();
    const receiver = await openReceiver();
    const cluster = await PostgresCluster.create();
    afterFile(() => cluster.remove());
    const { fixture, waitForEmails } = await startPostgresService(cluster.url, {
      gateways: 0,
      settings: {
        LOG_LEVEL: "warn",
        ...mailEnv(mailServer.url),
        WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true",
        ...(redis && { REDIS_URL: `redis://127.0.0.1:${redis.port}` }),
      },
    });
    const { webhooks } = asOperator(await openTestServices(fixture.env));
    receiver.secrets.push((await webhooks.create({ url: receiver.url })).secret);
    const listingIds = [fixture.listing.id];
    while (listingIds.length < LISTINGS) listingIds.push((await makeListing(fixture.services, fixture.userId)).id);

    const ports = [await restartablePort(), await restartablePort()];
    const memoryFile = (name: string) => join(folder, `${name}.memory`);
    const gateway = (name: string, port = 0, more = {}) => {
      const env = { ...fixture.env, ...more };
      return createProcess(name, ["serve", "--no-worker", "--port", `${port}`], /^Listening on/, env);
    };
    const worker = (name: string, more = {}) =>
      createProcess(name, ["worker"], /^Sending emails/, { ...fixture.env, ...more });
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
    const targets = { cluster, gateway: killedGateway, worker: killedWorker, redis, traffic };
    console.info(`Soak of ${MINUTES} minutes, SOAK_SEED=${SEED}`);
    const startedAt = performance.now();
    traffic.start();
    const injector = startInjector(targets, seededRandom(SEED + 1));
    await sleep(MINUTES * 60_000);
    const injected = await injector.stop();
    // The last fault may have been a restart of Postgres.
    await sleep(MAX_RECOVERY_MS);
    const sentPerSecond = traffic.sentPerSecond(startedAt, performance.now());
    await traffic.stop();
    const memory = await Promise.all(
      steady.map(async ({ name }) => ({ name, ...judgeMemory(await readSamples(memoryFile(name))) })),
    );
    await traffic.retryUnacknowledged();
    traffic.closeConnections();
    await waitForEmails(EMAIL_TIMEOUT_MS);

    const database = await findViolations(cluster.url, traffic.creates);
    const emails = checkEmails(mailServer.received, traffic.creates, injected);
    const webhookViolations = checkWebhooks(receiver.received, traffic.creates);
    const recoveriesMs = injected
      .flatMap(({ acceptingAt }) => acceptingAt ?? [])
      .flatMap((at) => ports.map((_, gateway) => firstSuccess(traffic, gateway, at) - at));
    const latencies = traffic.samples.map(({ sentAt, receivedAt }) => receivedAt - sentAt);
    const faults = countValues(injected.map(({ kind }) => kind));
    console.info({
      requestsPerSecond: Math.round(sentPerSecond),
      responses: countStatuses(traffic.samples),
      brokenConnections: traffic.connectionErrors,
      latencyMs: [0.5, 0.99, 1].map((q) => Math.round(quantile(latencies, q))),
      faults,
      recoveriesMs: recoveriesMs.map(Math.round),
      forms: database.forms,
      emails: mailServer.received.length,
      emailsRepeatedByKills: emails.repeatedByKills,
      webhooks: receiver.received.length,
    });
    console.info("Minimum memory in MB per quarter:", JSON.stringify(memory));
    expect([
      ...traffic.violations,
      ...database.violations,
      ...emails.violations,
      ...webhookViolations,
      ...receiver.errors,
      ...processes.flatMap(({ unexpectedExits }) => unexpectedExits),
    ]).toEqual([]);
    expect(memory.map(({ name, verdict }) => `${name}: ${verdict}`)).toEqual(
      steady.map(({ name }) => `${name}: steady`),
    );
    expect(Math.max(...recoveriesMs), "ms from a restart of Postgres until every gateway succeeds").toBeLessThan(
      MAX_RECOVERY_MS,
    );
    expect(sentPerSecond).toBeGreaterThan(0.9 * PER_SECOND);
    expect(Object.keys(faults).length).toBeGreaterThan(6);
    if (process.env.CI) expect(faults).toHaveProperty("Redis killed");
  },
  MINUTES * 60_000 + AFTER_LOAD_MS,
);
