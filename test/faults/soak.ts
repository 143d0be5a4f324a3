import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import pg from "pg";
import { findUnusedPort, PostgresCluster } from "./postgres-cluster.js";
import { findViolations } from "./postgres-invariants.js";
import { seededRandom, Traffic } from "./postgres-traffic.js";
import { FaultInjector } from "./soak-fault-injector.js";
import { isLeaking, MemoryWatch } from "./soak-memory.js";
import {
  acceptsConnections,
  createCliProcess,
  type MailServer,
  ManagedProcess,
  runGuestForms,
  startMailServer,
} from "./soak-processes.js";
import { checkEmails, countValues, latencyOf, printReport, type Report } from "./soak-report.js";

const USAGE = `npm run soak -- [--minutes 10] [--seed N] [--rate 150] [--report FILE]

Runs mixed load with random faults on two gateways, a worker and a temporary Postgres. Then compares the database and
the received emails with the acknowledged responses. Exits with code 1 on a violation.`;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 1e9)) },
    rate: { type: "string", default: "150" },
    report: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

const MIX = { create: 25, repeat: 10, update: 20, list: 10, fetch: 25, listing: 10 };
const LISTINGS = 5;
/** Longer than the minute in which a killed worker's notifications are taken over. */
const EMAIL_TIMEOUT_MS = 120_000;
const PROGRESS_INTERVAL_MS = 10_000;

interface SoakEnvironment {
  cluster: PostgresCluster;
  mailServer: MailServer;
  gateways: [ManagedProcess, ManagedProcess];
  urls: string[];
  worker: ManagedProcess;
  redis: ManagedProcess | undefined;
  redisSource: string;
  key: string;
  listingIds: string[];
}

const folder = await mkdtemp(join(tmpdir(), "guest-forms-soak-"));
const closers: (() => unknown)[] = [];
process.once("SIGINT", () => void close().then(() => process.exit(130)));
process.once("SIGTERM", () => void close().then(() => process.exit(143)));

if (values.help) console.log(USAGE);
else {
  const report = await soak(readNumber("minutes"), readNumber("seed"), readNumber("rate")).finally(close);
  printReport(report);
  if (values.report) await writeFile(values.report, `${JSON.stringify(report, null, 2)}\n`);
  if (report.violations.length > 0) process.exitCode = 1;
}

function readNumber(name: "minutes" | "seed" | "rate"): number {
  const value = Number(values[name]);
  if (!(value > 0)) throw new Error(`--${name} must be a number above 0.`);
  return value;
}

async function close(): Promise<void> {
  for (const closer of closers.splice(0).reverse()) await closer();
  await rm(folder, { recursive: true, force: true });
}

function log(line: string): void {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
}

async function soak(minutes: number, seed: number, perSecond: number): Promise<Report> {
  log(`seed ${seed}`);
  const environment = await startEnvironment();
  const { cluster, gateways, worker, redis, urls, key, listingIds } = environment;
  const random = seededRandom(seed);
  const traffic = new Traffic({
    urls,
    key,
    listingIds,
    perSecond,
    mix: MIX,
    random,
    expectsConnectionErrors: true,
  });
  closers.push(() => traffic.close());
  const startedAt = performance.now();
  const targets = { cluster, gateway: gateways[1], worker, redis, traffic };
  const injector = new FaultInjector(targets, seededRandom(seed + 1), startedAt, log);
  const memoryWatch = new MemoryWatch([...gateways, worker]);
  const progress = setInterval(() => logProgress(traffic, memoryWatch, startedAt), PROGRESS_INTERVAL_MS);
  traffic.start();
  injector.start();
  await sleep(minutes * 60_000);
  await injector.stop();
  await traffic.stop();
  clearInterval(progress);
  const memory = memoryWatch.stop();
  log("load stopped: retrying unacknowledged creates, waiting for emails");
  await traffic.retryUnacknowledged();
  const undelivered = await waitForEmails(cluster.url);
  const database = await findViolations(cluster.url, traffic.creates);
  const emails = checkEmails(environment.mailServer.received, traffic.creates, injector.injected, startedAt);
  const { samples, creates, connectionErrors } = traffic;
  return {
    minutes,
    seed,
    perSecond,
    redis: environment.redisSource,
    requests: samples.length + connectionErrors,
    outcomes: { ...countValues(samples.map(({ status }) => status)), connectionErrors },
    latencyMs: latencyOf(samples),
    faults: countValues(injector.injected.map(({ kind }) => kind)),
    creates: creates.length,
    updates: {
      sent: creates.reduce((sum, { updates }) => sum + updates.sent, 0),
      acknowledged: creates.reduce((sum, { updates }) => sum + updates.acknowledged, 0),
    },
    forms: database.forms,
    auditEntries: database.auditEntries,
    emails: {
      expected: emails.expected,
      received: environment.mailServer.received.length,
      repeatedByKills: emails.repeatedByKills,
    },
    memory,
    violations: [
      ...traffic.violations,
      ...database.violations,
      ...emails.violations,
      ...undelivered,
      ...[...gateways, worker].flatMap(({ unexpectedExits }) => unexpectedExits),
      ...memory.filter(isLeaking).map(({ name, pid }) => `${name} (process ${pid}) leaks memory`),
    ],
  };
}

function logProgress(traffic: Traffic, memoryWatch: MemoryWatch, startedAt: number): void {
  const seconds = Math.round((performance.now() - startedAt) / 1_000);
  const sizes = Object.entries(memoryWatch.latestMb()).map(([name, size]) => `${name} ${size} MB`);
  log(
    `${seconds} s: ${traffic.samples.length} responses, ${traffic.creates.length} creates, ${traffic.connectionErrors} connection errors, ` +
      `${traffic.violations.length} violations; ${sizes.join(", ")}`,
  );
}

/** Starts Postgres, a mail server, Redis, two gateways and a worker; creates a key holder with listings. */
async function startEnvironment(): Promise<SoakEnvironment> {
  const cluster = await PostgresCluster.create({ dataDir: join(folder, "postgres") });
  closers.push(() => cluster.remove());
  const mailServer = await startMailServer();
  closers.push(() => mailServer.close());
  const { redis, redisUrl, redisSource } = await findRedis();
  const env: Record<string, string> = {
    DATABASE_URL: cluster.url,
    APP_SECRETS: "a-secret-for-the-soak-of-more-than-32-characters",
    SMTP_URL: mailServer.url,
    SMTP_FROM: "soak@example.com",
    FORM_URL_TEMPLATE: "https://forms.example.com/{publicId}",
    RATE_LIMIT_MAX: "1000000000",
    LOG_LEVEL: "warn",
    ...(redisUrl && { REDIS_URL: redisUrl }),
  };
  await runGuestForms(env, "migrate");
  const user = await runGuestForms<{ id: string }>(env, "users", "create", "--email", "soak@example.com");
  const listingIds: string[] = [];
  for (let n = 1; n <= LISTINGS; n++) listingIds.push(await createListing(env, user.id, n));
  const { key } = await runGuestForms<{ key: string }>(
    env,
    ...["keys", "issue", "--user", user.id, "--mode", "read-write"],
  );
  const ports = [await findUnusedPort(), await findUnusedPort()];
  const [first, second] = ports.map((port, n) =>
    createCliProcess(
      `gateway-${n + 1}`,
      ["serve", "--no-worker", "--port", String(port)],
      /^Listening on/m,
      env,
      folder,
    ),
  ) as [ManagedProcess, ManagedProcess];
  const worker = createCliProcess("worker", ["worker"], /^Sending notifications/m, env, folder);
  for (const managed of [first, second, worker]) {
    closers.push(async () => {
      await managed.stop("SIGTERM");
      managed.close();
    });
    await managed.start();
  }
  const urls = ports.map((port) => `http://127.0.0.1:${port}`);
  return {
    cluster,
    mailServer,
    gateways: [first, second],
    urls,
    worker,
    redis,
    redisSource,
    key,
    listingIds,
  };
}

async function createListing(env: Record<string, string>, owner: string, n: number): Promise<string> {
  const { id } = await runGuestForms<{ id: string }>(
    env,
    ...["listings", "create", "--owner", owner, "--title", `Listing ${n}`, "--address", "Kanalweg 7"],
    ...["--city", "Berlin", "--country", "Germany", "--zip-code", "10997", "--timezone", "Europe/Berlin"],
  );
  return id;
}

/** Uses the Redis at REDIS_URL, otherwise starts one, otherwise uses a running one on port 6379, otherwise none. */
async function findRedis(): Promise<{
  redis: ManagedProcess | undefined;
  redisUrl?: string;
  redisSource: string;
}> {
  const given = process.env.REDIS_URL;
  if (given) return { redis: undefined, redisUrl: given, redisSource: "at REDIS_URL" };
  const port = await findUnusedPort();
  const redis = new ManagedProcess({
    name: "redis",
    command: "redis-server",
    args: ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
    env: {},
    readyPattern: /Ready to accept connections/,
    folder,
  });
  const isStarted = await redis.start().then(
    () => true,
    () => false,
  );
  closers.push(async () => {
    await redis.stop("SIGTERM");
    redis.close();
  });
  if (isStarted) return { redis, redisUrl: `redis://127.0.0.1:${port}`, redisSource: "started by the soak" };
  const isRunning = await acceptsConnections(6379);
  return isRunning
    ? { redis: undefined, redisUrl: "redis://127.0.0.1:6379", redisSource: "running on port 6379" }
    : { redis: undefined, redisSource: "none" };
}

/** Waits until all notifications are sent; returns a violation after a timeout. */
async function waitForEmails(databaseUrl: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    for (const since = performance.now(); ; await sleep(250)) {
      const { rows } = await client.query<{ n: number }>(
        "SELECT count(*)::int AS n FROM notifications WHERE state <> 'sent'",
      );
      const left = rows[0]?.n ?? 0;
      if (left === 0) return [];
      if (performance.now() - since > EMAIL_TIMEOUT_MS) return [`${left} notifications were not sent`];
    }
  } finally {
    await client.end();
  }
}
