import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Database, openOutboxDatabase } from "./database.js";
import type { Options } from "./options.js";
import { fillOutbox, queueMessages } from "./outbox-fill.js";
import { cpuMicroseconds, machineCpuMicroseconds } from "./process-usage.js";
import type { Ports } from "./receivers.js";
import { dataFolder, markdownTable, progress } from "./report.js";
import { killAtExit, startWorkerProcess } from "./servers.js";

/** What one run measures. */
export interface Run {
  channel: "deliveries" | "emails";
  /** WORKER_CONCURRENCY, of emails. */
  concurrency: number;
  workers: number;
  /** Milliseconds that each commit takes at least. */
  delayMs: number;
}

export interface RunFigures extends Run {
  perSecond: number;
  /** Per message: CPU time in microseconds, of the workers and of Postgres, and bytes of WAL. */
  cpu: number;
  postgresCpu: number;
  wal: number;
  /** Cores that other processes used. */
  otherLoad: number;
}

const DELAYS_MS = [0, 5, 20];
/** Emails at a time: the default, and one that operators set. */
const EMAILS_AT_A_TIME = [2, 10];
const SECONDS = 5;
/** Before it is measured, a worker sends for so long. */
const WARM_UP_MS = 2_000;
const START_TIMEOUT_MS = 30_000;
/** A run that misses an aim is measured up to so often in all. */
const MEASUREMENTS = 3;
/** If other processes used more than so many cores, a miss says nothing about the service. */
const MAX_OTHER_LOAD = 0.5;

/** Deliveries per second that are reached at least, by workers and commit latency. */
const AIMS = [
  { workers: 1, delayMs: 5, perSecond: 500 },
  { workers: 2, delayMs: 20, perSecond: 350 },
];
/** Two workers send at least this share of what one sends: more workers never send less, and runs differ by a tenth. */
const MIN_SPEEDUP = 0.9;

const runsOf = (channel: Run["channel"], concurrency: number): Run[] =>
  DELAYS_MS.flatMap((delayMs) => [1, 2].map((workers) => ({ channel, concurrency, workers, delayMs })));

/** Measures how fast workers send. Returns whether the aims are met. In mode `check`, it measures only deliveries. */
export async function measureOutbox({ mode }: Pick<Options, "mode">): Promise<boolean> {
  const emails = mode === "check" ? [] : EMAILS_AT_A_TIME.flatMap((concurrency) => runsOf("emails", concurrency));
  const { database, close } = await openOutboxDatabase();
  const receivers = killAtExit(fork(join(dataFolder(), "build/receivers.mjs")));
  try {
    const [ports] = (await once(receivers, "message")) as [Ports];
    await fillOutbox(database.client, ports.http);
    const runs = [...runsOf("deliveries", 2), ...emails];
    const figures = await measureRuns(runs, (run) => measureRun(database, ports, run));
    process.stdout.write(`${outboxTable(figures)}\n`);
    const missed = figures.flatMap((one) => missedAims(one, figures));
    process.stdout.write(missed.length > 0 ? `\n${missed.join("\n")}\n` : "\nAll aims of the outbox are met.\n");
    return missed.length === 0;
  } finally {
    receivers.kill();
    await close();
  }
}

type Measure = (run: Run) => Promise<RunFigures>;

/** Measures each run, and again if it misses an aim. Other load on the machine only lowers a rate, so the highest counts. */
export async function measureRuns(runs: Run[], measure: Measure): Promise<RunFigures[]> {
  const figures: RunFigures[] = [];
  for (const run of runs) {
    let best = await measure(run);
    for (let n = 1; n < MEASUREMENTS && missedAims(best, figures).length > 0; n++) {
      const again = await measure(run);
      if (again.perSecond > best.perSecond) best = again;
    }
    figures.push(best);
  }
  return figures;
}

/** Describes the aims that a run has missed. `others` has the run with one worker. */
export function missedAims(run: RunFigures, others: readonly RunFigures[]): string[] {
  const { channel, concurrency, workers, delayMs, perSecond, otherLoad } = run;
  const aim = AIMS.find((aim) => channel === "deliveries" && aim.workers === workers && aim.delayMs === delayMs);
  const single = others.find(
    (other) =>
      other.workers < workers &&
      other.channel === channel &&
      other.concurrency === concurrency &&
      other.delayMs === delayMs,
  );
  const title = `${titleOf(run)}, workers: ${workers}, commits of ${delayMs} ms`;
  const reason =
    otherLoad > MAX_OTHER_LOAD
      ? `; other processes used ${otherLoad.toFixed(1)} cores: run it again on a quiet machine`
      : "";
  return [aim?.perSecond, single && single.perSecond * MIN_SPEEDUP].flatMap((bound) =>
    bound === undefined || perSecond >= bound
      ? []
      : [`${title}: ${Math.round(perSecond)}/s (≥ ${Math.round(bound)})${reason}`],
  );
}

const titleOf = ({ channel, concurrency }: Run) =>
  channel === "emails" ? `emails, ${concurrency} at a time` : channel;

function outboxTable(figures: readonly RunFigures[]): string {
  const format = (value: number) => Math.round(value).toLocaleString("en");
  const head = ["channel", "workers", "commit, ms", "per second", "CPU µs", "Postgres CPU µs", "WAL bytes"];
  const rows = figures.map((one) => [
    titleOf(one),
    String(one.workers),
    String(one.delayMs),
    ...[one.perSecond, one.cpu, one.postgresCpu, one.wal].map(format),
  ]);
  return markdownTable([head, ...rows]);
}

async function measureRun({ url, client, postmasterPid }: Database, { smtp }: Ports, run: Run): Promise<RunFigures> {
  const { channel, concurrency, workers, delayMs } = run;
  progress(`Measuring: ${titleOf(run)}, workers: ${workers}, commit latency: ${delayMs} ms …`);
  const table = channel === "emails" ? "emails" : "webhook_deliveries";
  await queueMessages(client, table);
  // For the sessions of the workers. Only a server with `fsync` waits.
  await client.query(`ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET commit_delay = ${delayMs * 1000}`);
  const read = async (sql: string) =>
    Number((await client.query<{ value: string }>(`SELECT ${sql} AS value`)).rows[0]?.value);
  const env = {
    WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true",
    ...(channel === "emails" && {
      SMTP_URL: `smtp://127.0.0.1:${smtp}`,
      SMTP_FROM: "Guest forms <no-reply@example.com>",
      FORM_URL_TEMPLATE: "https://forms.example.com/{publicId}",
      WORKER_CONCURRENCY: String(concurrency),
    }),
  };
  const processes = Array.from({ length: workers }, () => startWorkerProcess(url, env));
  try {
    const began = performance.now();
    while ((await read(`(SELECT count(DISTINCT worker_id) FROM ${table} WHERE ended_at IS NOT NULL)`)) < workers) {
      if (performance.now() - began > START_TIMEOUT_MS) throw new Error(`Not every worker sends ${channel}.`);
      await sleep(50);
    }
    await sleep(WARM_UP_MS);
    const sample = async () => ({
      sent: await read(`(SELECT count(*) FROM ${table} WHERE ended_at IS NOT NULL)`),
      // A fast machine may send everything before the end.
      lastAt: await read(`(SELECT extract(epoch FROM max(ended_at)) FROM ${table})`),
      at: performance.now(),
      wal: await read("pg_current_wal_lsn() - '0/0'"),
      cpu: processes.reduce((sum, { pid }) => sum + cpuMicroseconds(pid), 0),
      postgresCpu: cpuMicroseconds(postmasterPid),
      other: machineCpuMicroseconds() - cpuMicroseconds(process.pid),
    });
    const before = await sample();
    await sleep(SECONDS * 1000);
    const after = await sample();
    const unsent = await read(`(SELECT count(*) FROM ${table} WHERE state NOT IN ('waiting', 'running', 'sent'))`);
    if (unsent > 0) throw new Error(`${unsent} ${channel} were not accepted.`);
    const perMessage = (name: keyof typeof before) => (after[name] - before[name]) / (after.sent - before.sent);
    return {
      ...run,
      perSecond: 1 / perMessage("lastAt"),
      ...{ cpu: perMessage("cpu"), postgresCpu: perMessage("postgresCpu"), wal: perMessage("wal") },
      otherLoad: (after.other - before.other) / ((after.at - before.at) * 1000),
    };
  } finally {
    await Promise.all(processes.map((worker) => worker.stop()));
  }
}
