import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { startEmbedded } from "../../gateway/dev/embedded.js";
import { freePort } from "../support/network.js";
import { cpuMicroseconds } from "../support/process-usage.js";
import { runSql } from "../support/run-sql.js";
import { copyAsStandby } from "../support/standby-files.js";
import { median } from "../support/statistics.js";
import { type Database, SETTINGS } from "./database.js";
import { openFilled } from "./fill.js";
import { runLoad } from "./load.js";
import { createOperations, type Operation } from "./operations.js";
import type { Options } from "./options.js";
import { markdownTable, progress } from "./report.js";
import { type Server, startServer } from "./servers.js";

// What reads cost the primary, and how long they take, read there and read from a standby that replays late.

const OPERATIONS = ["fetch-form", "list-10000", "deep-10000"];
const SECONDS = 3;

/** Commits per second beside the reads, and by how many milliseconds the standby replays later. */
const CASES = [
  { perSecond: 0, lagMs: 0 },
  { perSecond: 100, lagMs: 0 },
  { perSecond: 400, lagMs: 0 },
  { perSecond: 100, lagMs: 5 },
  { perSecond: 100, lagMs: 100 },
  { perSecond: 100, lagMs: 10_000 },
];

/** Connections that commit: one would be slower when the machine is full. */
const COMMITTERS = 8;
/** Of the commits that a case has, those that a turn must have. */
const MIN_COMMITS = 0.9;

interface Reader extends Server {
  metricsUrl: string;
}

const TOKEN = "the-token-of-the-benchmark-of-32-characters";

async function startReader(database: Database, env: Record<string, string> = {}): Promise<Reader> {
  const port = await freePort();
  const internal = { INTERNAL_TOKEN: TOKEN, INTERNAL_PORT: `${port}` };
  const server = await startServer("service", database.url, { ...internal, ...env });
  return { ...server, metricsUrl: `http://127.0.0.1:${port}/metrics` };
}

/** Reads so far, by where they ran. */
async function readPlaces({ metricsUrl }: Reader): Promise<Map<string, number>> {
  const response = await fetch(metricsUrl, { headers: { Authorization: `Bearer ${TOKEN}` } });
  const lines = (await response.text()).matchAll(/^guest_forms_reads_total\{place="(\w+)"\} (\d+)$/gm);
  return new Map([...lines].map(([, place = "", count]) => [place, Number(count)]));
}

/** Starts a standby of the database, and returns its URL and how to let it replay late. */
async function startStandby(database: Database) {
  const { dataDir, settings } = await copyAsStandby(database);
  const server = await startEmbedded({ dataDir, durable: true, settings: { ...SETTINGS, ...settings } });
  const url = new URL(new URL(database.url).pathname, server.url).href;
  return {
    url,
    pid: server.pid,
    async delay(ms: number) {
      await runSql(url, `ALTER SYSTEM SET recovery_min_apply_delay = ${ms}`);
      await runSql(url, "SELECT pg_reload_conf()");
    },
  };
}

/** Commits beside the reads. */
class Commits {
  /** So far. */
  count = 0;
  #isOver = false;
  readonly #committing: Promise<void>[];

  /** Commits this often per second until `stop`. */
  constructor({ url }: Database, perSecond: number) {
    const connections = perSecond === 0 ? 0 : COMMITTERS;
    this.#committing = Array.from({ length: connections }, () => this.#commit(url, perSecond / connections));
  }

  async #commit(url: string, perSecond: number): Promise<void> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const began = performance.now();
    for (let n = 0; !this.#isOver; n++) {
      await sleep(Math.max(0, began + (n * 1_000) / perSecond - performance.now()));
      await client.query("INSERT INTO bench_commits VALUES (1)");
      this.count++;
    }
    await client.end();
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#committing);
  }
}

interface Turn {
  primaryCpu: number;
  standbyCpu: number;
  p50: number;
  p99: number;
  /** Of its reads, those that ran on the standby. */
  share: number;
}

/** What runs beside the reads, and the CPU time per second of each server that it uses. */
interface Beside {
  commits: Commits;
  perSecond: number;
  idle: readonly [number, number];
}

const medianOf = (turns: Turn[], name: keyof Turn) => median(turns.map((turn) => turn[name]));

export async function measureStandby({ forms, rounds, only }: Options): Promise<boolean> {
  const database = await openFilled(forms);
  const standby = await startStandby(database);
  const readers = [await startReader(database), await startReader(database, { DATABASE_REPLICA_URL: standby.url })];
  const names = only.length > 0 ? only : OPERATIONS;
  const operations = (await createOperations(database.client)).filter(({ id }) => names.includes(id));
  const cpu = () => [cpuMicroseconds(database.postmasterPid), cpuMicroseconds(standby.pid)] as const;
  /** CPU time per second of what runs beside the reads. */
  const measureIdle = async () => {
    const [primary, secondary] = cpu();
    await sleep(SECONDS * 1_000);
    const after = cpu();
    return [(after[0] - primary) / SECONDS, (after[1] - secondary) / SECONDS] as const;
  };
  const runTurn = async (reader: Reader, operation: Operation, beside: Beside): Promise<Turn> => {
    const { idle, commits, perSecond } = beside;
    await runLoad(reader.url, operation, 1);
    const [before, placesBefore, committed] = [cpu(), await readPlaces(reader), commits.count];
    const { requests, duration, p50, p99, errors } = await runLoad(reader.url, operation, SECONDS);
    const rate = ((commits.count - committed) * 1e6) / duration;
    const [after, places] = [cpu(), await readPlaces(reader)];
    if (errors > 0) throw new Error(`${errors} of ${requests} requests failed.`);
    if (rate < MIN_COMMITS * perSecond) throw new Error(`${rate} commits/s instead of ${perSecond}.`);
    const perRequest = (n: 0 | 1) => (after[n] - before[n] - (idle[n] * duration) / 1e6) / requests;
    const onStandby = (places.get("standby") ?? 0) - (placesBefore.get("standby") ?? 0);
    return { primaryCpu: perRequest(0), standbyCpu: perRequest(1), p50, p99, share: onStandby / requests };
  };
  const rows: string[][] = [];
  await database.client.query("CREATE TABLE IF NOT EXISTS bench_commits (n int); TRUNCATE bench_commits");
  for (const { perSecond, lagMs } of CASES) {
    await standby.delay(lagMs);
    const commits = new Commits(database, perSecond);
    const beside = { perSecond, commits, idle: await measureIdle() };
    for (const operation of operations) {
      progress(`Measuring: ${operation.id}, ${perSecond} commits/s, ${lagMs} ms late …`);
      const turns: [Turn[], Turn[]] = [[], []];
      for (let round = 0; round < rounds; round++)
        for (const n of [0, 1] as const) turns[n].push(await runTurn(readers[n] as Reader, operation, beside));
      const both = (name: keyof Turn, unit = 1) =>
        turns.map((each) => (medianOf(each, name) / unit).toFixed(unit === 1 ? 0 : 1));
      rows.push([
        `${operation.id}, ${perSecond} commits/s, ${lagMs} ms late`,
        ...both("primaryCpu"),
        medianOf(turns[1], "standbyCpu").toFixed(0),
        ...both("p50", 1_000),
        ...both("p99", 1_000),
        `${(100 * medianOf(turns[1], "share")).toFixed(0)} %`,
      ]);
    }
    await commits.stop();
  }
  const head = ["", "primary CPU µs", "… with standby", "standby CPU µs", "p50 ms", "… with standby", "p99 ms"];
  process.stdout.write(markdownTable([[...head, "… with standby", "on the standby"], ...rows]));
  return true;
}
