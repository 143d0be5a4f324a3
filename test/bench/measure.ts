import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { cpuMicroseconds } from "../support/process-usage.js";
import { median } from "../support/statistics.js";
import type { Database } from "./database.js";
import { undoCreates } from "./fill.js";
import { runLoad } from "./load.js";
import { type Operation, writes } from "./operations.js";
import { progress } from "./report.js";
import type { Server } from "./servers.js";

const FIGURES = ["requestsPerSecond", "cpu", "postgresCpu", "p50", "p99", "p999"] as const;
/**
 * Figures of one operation on one server. Times are in microseconds; `cpu` and `postgresCpu` are CPU time per request, of
 * the server's processes and of Postgres.
 */
export type Figures = Record<(typeof FIGURES)[number], number>;

const toFigures = (calculate: (name: keyof Figures) => number) =>
  Object.fromEntries(FIGURES.map((name) => [name, calculate(name)])) as Figures;

export const medians = (rounds: readonly Figures[]): Figures =>
  toFigures((name) => median(rounds.map((figures) => figures[name])));

/** The medians of the ratios of each round, in which the changing load of a shared machine cancels out. */
export const ratios = (own: readonly Figures[], other: readonly Figures[]): Figures =>
  medians(own.map((figures, round) => toFigures((name) => figures[name] / (other[round]?.[name] ?? Number.NaN))));

/** What is measured in one turn. */
export interface Subject {
  database: Database;
  server: Server;
  operation: Operation;
}

/** Gives each subject one turn per round, in alternating order. Returns the figures of each subject's rounds. */
export async function runRounds(subjects: readonly Subject[], rounds: number): Promise<Figures[][]> {
  const figures = new Map<Subject, Figures[]>(subjects.map((subject) => [subject, []]));
  for (let round = 0; round < rounds; round++) {
    for (const subject of round % 2 ? subjects.toReversed() : subjects)
      figures.get(subject)?.push(await runTurn(subject));
  }
  return [...figures.values()];
}

/** Before each turn, unmeasured: a server that was idle uses far more CPU time at first, and a replay needs its original. */
const WARM_UP_SECONDS = 1;

/** Measures one load on one server. Ends when the server and Postgres are idle, and restores the database. */
export async function runTurn({ database, server, operation }: Subject, seconds = 1): Promise<Figures> {
  const { client, postmasterPid } = database;
  await runLoad(server.url, operation, WARM_UP_SECONDS);
  const cpu = () => [cpuMicroseconds(server.pid), cpuMicroseconds(postmasterPid)] as const;
  const before = cpu();
  const { requests, duration, errors, p50, p99, p999 } = await runLoad(server.url, operation, seconds);
  const after = cpu();
  await waitUntilIdle(client, server);
  if (writes(operation)) await undoCreates(client);
  if (errors > 0) progress(`${server.name}, ${operation.id}: ${errors} of ${requests} requests failed.`);
  // A peer may fail on a busy machine.
  if (errors > 0 && server.name === "service") throw new Error("Requests to the service failed.");
  return {
    ...{ p50, p99, p999, requestsPerSecond: (requests * 1e6) / duration },
    cpu: (after[0] - before[0]) / requests,
    postgresCpu: (after[1] - before[1]) / requests,
  };
}

/** Waits until Postgres and the server have finished the requests of closed connections. */
async function waitUntilIdle(client: pg.Client, { pid }: Server): Promise<void> {
  const active = "datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()";
  for (let before = Number.NaN, isIdle = false; !isIdle; await sleep(100)) {
    const { rowCount } = await client.query(`SELECT FROM pg_stat_activity WHERE ${active}`);
    const cpu = cpuMicroseconds(pid);
    // An idle server uses less than a tenth of a core.
    isIdle = rowCount === 0 && cpu - before <= 10_000;
    before = cpu;
  }
}
