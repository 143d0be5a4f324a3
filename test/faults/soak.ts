import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import pg from "pg";
import { Cluster, quietPort } from "./postgres-cluster.js";
import { findViolations } from "./postgres-invariants.js";
import { randomFrom, Traffic } from "./postgres-traffic.js";
import { Faults } from "./soak-faults.js";
import { isGrowing, MemoryWatch } from "./soak-memory.js";
import { judgeMail, latencyOf, print, type Report, tallyOf } from "./soak-report.js";
import {
  answers,
  cliService,
  guestForms,
  type MailServer,
  Service,
  startMailServer,
} from "./soak-services.js";

const USAGE = `npm run soak -- [--minutes 10] [--seed N] [--rate 150] [--report FILE]

Mixed load on two gateways and a worker over a Postgres of its own, with random faults; then everything that clients
were told is held against the database and the mail that arrived. Ends with code 1 on a violation.`;

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
/** A killed worker's jobs are taken over within a minute. */
const MAIL_MS = 120_000;
const TELL_EVERY_MS = 10_000;

interface Setting {
  cluster: Cluster;
  mail: MailServer;
  gateways: [Service, Service];
  urls: string[];
  worker: Service;
  redis: Service | undefined;
  redisIs: string;
  key: string;
  listingIds: string[];
}

const folder = await mkdtemp(join(tmpdir(), "guest-forms-soak-"));
const closers: (() => unknown)[] = [];
process.once("SIGINT", () => void close().then(() => process.exit(130)));
process.once("SIGTERM", () => void close().then(() => process.exit(143)));

if (values.help) console.log(USAGE);
else {
  const report = await soak(amount("minutes"), amount("seed"), amount("rate")).finally(close);
  print(report);
  if (values.report) await writeFile(values.report, `${JSON.stringify(report, null, 2)}\n`);
  if (report.violations.length > 0) process.exitCode = 1;
}

function amount(name: "minutes" | "seed" | "rate"): number {
  const value = Number(values[name]);
  if (!(value > 0)) throw new Error(`--${name} must be a number above 0.`);
  return value;
}

async function close(): Promise<void> {
  for (const closer of closers.splice(0).reverse()) await closer();
  await rm(folder, { recursive: true, force: true });
}

function tell(line: string): void {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
}

async function soak(minutes: number, seed: number, perSecond: number): Promise<Report> {
  tell(`seed ${seed}`);
  const setting = await prepare();
  const { cluster, gateways, worker, redis, urls, key, listingIds } = setting;
  const random = randomFrom(seed);
  const traffic = new Traffic({ urls, key, listingIds, perSecond, mix: MIX, random, mayBreak: true });
  closers.push(() => traffic.close());
  const began = performance.now();
  const targets = { cluster, gateway: gateways[1], worker, redis, traffic };
  const faults = new Faults(targets, randomFrom(seed + 1), began, tell);
  const memory = new MemoryWatch([...gateways, worker]);
  const progress = setInterval(() => tellProgress(traffic, memory, began), TELL_EVERY_MS);
  traffic.start();
  faults.start();
  await sleep(minutes * 60_000);
  await faults.stop();
  await traffic.stop();
  clearInterval(progress);
  const lives = memory.stop();
  tell("the load has ended: sending again what was not acknowledged, and waiting for the mail");
  await traffic.settle();
  const waiting = await waitForMail(cluster.url);
  const found = await findViolations(cluster.url, traffic.entries);
  const mail = judgeMail(setting.mail.received, traffic.entries, faults.made, began);
  const { samples, entries, broken } = traffic;
  return {
    minutes,
    seed,
    perSecond,
    redis: setting.redisIs,
    requests: samples.length + broken,
    answers: { ...tallyOf(samples.map(({ status }) => ({ what: String(status), from: 0, to: 0 }))), broken },
    latency: latencyOf(samples),
    faults: tallyOf(faults.made),
    creates: entries.length,
    updates: {
      sent: entries.reduce((sum, { updates }) => sum + updates.sent, 0),
      acknowledged: entries.reduce((sum, { updates }) => sum + updates.acknowledged, 0),
    },
    forms: found.forms,
    auditEntries: found.auditEntries,
    messages: {
      expected: mail.expected,
      received: setting.mail.received.length,
      repeatedByKills: mail.repeatedByKills,
    },
    memory: lives,
    violations: [
      ...traffic.violations,
      ...found.violations,
      ...mail.violations,
      ...waiting,
      ...[...gateways, worker].flatMap(({ failures }) => failures),
      ...lives
        .filter(isGrowing)
        .map(({ name, pid }) => `${name} (process ${pid}) keeps more and more memory`),
    ],
  };
}

function tellProgress(traffic: Traffic, memory: MemoryWatch, began: number): void {
  const seconds = Math.round((performance.now() - began) / 1_000);
  const sizes = Object.entries(memory.now()).map(([name, size]) => `${name} ${size} MB`);
  tell(
    `${seconds} s: ${traffic.samples.length} answers, ${traffic.entries.length} creates, ${traffic.broken} broken, ` +
      `${traffic.violations.length} violations; ${sizes.join(", ")}`,
  );
}

/** Postgres, mail, Redis, two gateways and a worker, with a holder's key and listings. */
async function prepare(): Promise<Setting> {
  const cluster = await Cluster.create({ dataDir: join(folder, "postgres") });
  closers.push(() => cluster.remove());
  const mail = await startMailServer();
  closers.push(() => mail.close());
  const { redis, redisUrl, redisIs } = await findRedis();
  const env: Record<string, string> = {
    DATABASE_URL: cluster.url,
    APP_SECRETS: "a-secret-for-the-soak-of-more-than-32-characters",
    SMTP_URL: mail.url,
    SMTP_FROM: "soak@example.com",
    FORM_URL_TEMPLATE: "https://forms.example.com/{publicId}",
    RATE_LIMIT_MAX: "1000000000",
    LOG_LEVEL: "warn",
    ...(redisUrl && { REDIS_URL: redisUrl }),
  };
  await guestForms(env, "migrate");
  const user = await guestForms<{ id: string }>(env, "users", "create", "--email", "soak@example.com");
  const listingIds: string[] = [];
  for (let n = 1; n <= LISTINGS; n++) listingIds.push(await createListing(env, user.id, n));
  const { key } = await guestForms<{ key: string }>(
    env,
    ...["keys", "issue", "--user", user.id, "--mode", "read-write"],
  );
  const ports = [await quietPort(), await quietPort()];
  const [first, second] = ports.map((port, n) =>
    cliService(
      `gateway-${n + 1}`,
      ["serve", "--no-worker", "--port", String(port)],
      /^Listening on/m,
      env,
      folder,
    ),
  ) as [Service, Service];
  const worker = cliService("worker", ["worker"], /^Sending notifications/m, env, folder);
  for (const service of [first, second, worker]) {
    closers.push(async () => {
      await service.end("SIGTERM");
      service.close();
    });
    await service.start();
  }
  const urls = ports.map((port) => `http://127.0.0.1:${port}`);
  return { cluster, mail, gateways: [first, second], urls, worker, redis, redisIs, key, listingIds };
}

async function createListing(env: Record<string, string>, owner: string, n: number): Promise<string> {
  const { id } = await guestForms<{ id: string }>(
    env,
    ...["listings", "create", "--owner", owner, "--title", `Listing ${n}`, "--address", "Kanalweg 7"],
    ...["--city", "Berlin", "--country", "Germany", "--zip-code", "10997", "--timezone", "Europe/Berlin"],
  );
  return id;
}

/** The Redis at REDIS_URL, else one of the soak's own, else the one that runs here, else none. */
async function findRedis(): Promise<{ redis: Service | undefined; redisUrl?: string; redisIs: string }> {
  const given = process.env.REDIS_URL;
  if (given) return { redis: undefined, redisUrl: given, redisIs: "the one at REDIS_URL" };
  const port = await quietPort();
  const redis = new Service({
    name: "redis",
    command: "redis-server",
    args: ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
    env: {},
    ready: /Ready to accept connections/,
    folder,
  });
  const isStarted = await redis.start().then(
    () => true,
    () => false,
  );
  closers.push(async () => {
    await redis.end("SIGTERM");
    redis.close();
  });
  if (isStarted) return { redis, redisUrl: `redis://127.0.0.1:${port}`, redisIs: "the soak's own" };
  const isRunning = await answers(6379);
  return isRunning
    ? { redis: undefined, redisUrl: "redis://127.0.0.1:6379", redisIs: "the one that runs here" }
    : { redis: undefined, redisIs: "none" };
}

/** Waits until no notification waits; the violations where that takes too long. */
async function waitForMail(databaseUrl: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    for (const since = performance.now(); ; await sleep(250)) {
      const { rows } = await client.query<{ n: number }>(
        "SELECT count(*)::int AS n FROM notifications WHERE state <> 'sent'",
      );
      const left = rows[0]?.n ?? 0;
      if (left === 0) return [];
      if (performance.now() - since > MAIL_MS) return [`${left} notifications are left`];
    }
  } finally {
    await client.end();
  }
}
