import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { median } from "../support/statistics.js";
import { type Database, prepareUndo } from "./database.js";
import type { Operation } from "./operations.js";
import { cpuMicroseconds } from "./process-usage.js";
import { progress } from "./report.js";
import { type BenchRequest, send, startCreates } from "./requests.js";
import type { Server, ServerName } from "./servers.js";
import { runWrk, type WrkResult } from "./wrk.js";

const FIGURES = ["requestsPerSecond", "p50", "p99", "p999", "cpu", "postgresCpu"] as const;
/**
 * Results of one operation on one server. Times are in microseconds; `cpu` and `postgresCpu` are CPU time per request, of
 * the server's processes and of Postgres.
 */
export type Figures = Record<(typeof FIGURES)[number], number>;

export interface Result extends Pick<Operation, "id" | "title"> {
  servers: Partial<Record<ServerName, Figures>>;
  /**
   * The service's figures relative to each peer's in the same round, medians of the rounds. Changing machine load cancels
   * out.
   */
  relativeTo: Partial<Record<ServerName, Figures>>;
}

const figuresOf = (calculate: (name: keyof Figures) => number) =>
  Object.fromEntries(FIGURES.map((name) => [name, calculate(name)])) as Figures;

export const medians = (rounds: Figures[]): Figures =>
  figuresOf((name) => median(rounds.map((figures) => figures[name])));

/** The medians of the ratios of each round. */
export const ratios = (own: Figures[], peer: Figures[]): Figures =>
  figuresOf((name) => median(own.map((figures, round) => figures[name] / (peer[round]?.[name] ?? Number.NaN))));

/** The medians of several measurements of one operation. */
export function medianResult(all: readonly [Result, ...Result[]]): Result {
  const of = (part: "servers" | "relativeTo") => {
    const names = Object.keys(all[0][part]) as ServerName[];
    return Object.fromEntries(names.map((name) => [name, medians(all.flatMap((result) => result[part][name] ?? []))]));
  };
  return { ...all[0], servers: of("servers"), relativeTo: of("relativeTo") };
}

export interface LoadSettings {
  rounds: number;
  seconds: number;
  /** Unmeasured load before each turn, because a server that was idle uses far more CPU time at first. */
  warmUpSeconds: number;
  connections: number;
}

const MAX_TURN_SECONDS = 6;

/** Measures the operation on each server. */
export async function measure(
  database: Database,
  servers: readonly Server[],
  operation: Operation,
  settings: LoadSettings,
): Promise<Result> {
  const figures = await runRounds(
    servers.map((server) => ({ database, server, operation })),
    settings,
  );
  const results = servers.map(({ name }, index) => [name, figures[index] ?? []] as const);
  const own = results.find(([name]) => name === "service")?.[1];
  const peers = results.filter(([name]) => name !== "service");
  const { id, title } = operation;
  return {
    id,
    title,
    servers: Object.fromEntries(results.map(([name, rounds]) => [name, medians(rounds)])),
    relativeTo: own ? Object.fromEntries(peers.map(([name, rounds]) => [name, ratios(own, rounds)])) : {},
  };
}

/** What is measured in one turn. */
export interface Subject {
  database: Database;
  server: Server;
  operation: Operation;
}

/** Gives each subject one turn per round. Returns the figures of each subject's rounds. */
export async function runRounds(subjects: readonly Subject[], settings: LoadSettings): Promise<Figures[][]> {
  const longerTurns = new Map<Subject, number>();
  /** Runs a turn, and a longer one if not every connection got a response, up to MAX_TURN_SECONDS. */
  const measureTurn = async (subject: Subject, warmUpFactor: number): Promise<Figures> => {
    const { database, server, operation } = subject;
    const seconds = longerTurns.get(subject) ?? settings.seconds;
    const warmUpSeconds = seconds > settings.seconds ? 0 : settings.warmUpSeconds * warmUpFactor;
    const figures = await runTurn(database, server, operation, { ...settings, seconds, warmUpSeconds });
    if (figures.requestsPerSecond * seconds >= settings.connections || seconds >= MAX_TURN_SECONDS) return figures;
    longerTurns.set(subject, Math.min(seconds * 3, MAX_TURN_SECONDS));
    return measureTurn(subject, 0);
  };
  const isT = ({ server }: Subject) => server.name === "T";
  const [others, T] = [subjects.filter((subject) => !isT(subject)), subjects.filter(isT)];
  const results = new Map<Subject, Figures[]>(subjects.map((subject) => [subject, []]));
  for (let round = 0; round < settings.rounds; round++) {
    // T is much slower and leaves the caches in disorder, so it runs last, and after it the others warm up longer. Their
    // order alternates.
    const inOrder = round % 2 ? others.toReversed() : others;
    for (const [index, subject] of [...inOrder, ...T].entries()) {
      const followsT = T.length > 0 && round > 0 && index === 0;
      results.get(subject)?.push(await measureTurn(subject, followsT ? 2 : 1));
    }
  }
  return [...results.values()];
}

/** Each load gets its own range of create numbers. */
let lastSerial = 0;
const nextSerials = () => {
  lastSerial += 1_000_000;
  return lastSerial;
};

export type Load = Omit<Operation, "id" | "title">;

/** Runs one load on one server. Ends when the server and Postgres are idle, and restores the database. */
export async function runTurn(
  database: Database,
  server: Server,
  { requests, refresh, writes, replays, followsTail, besideCreates }: Load,
  { connections, seconds, warmUpSeconds = 0 }: Pick<LoadSettings, "connections" | "seconds"> & Partial<LoadSettings>,
): Promise<Figures> {
  const { client, postmasterPid } = database;
  const undo = writes ? await prepareUndo(client) : undefined;
  if (replays) for (const request of requests) await send(server, request);
  const currentRequests = async () => refresh?.() ?? requests;
  const load = (requests: BenchRequest[], seconds: number) =>
    runWrk(server.url, { requests, connections, seconds, followsTail, firstSerial: nextSerials() });
  const stopCreates = besideCreates && startCreates(server, besideCreates, nextSerials());
  if (warmUpSeconds > 0) await load(await currentRequests(), warmUpSeconds);
  const measured = await currentRequests();
  const cpu = () => [cpuMicroseconds(server.pid), cpuMicroseconds(postmasterPid)] as const;
  const before = cpu();
  const outcome = await load(measured, seconds);
  const after = cpu();
  await stopCreates?.();
  await waitUntilIdle(client, server);
  await undo?.();
  checkErrors(server, outcome, requests[0]?.target);
  const { p50, p99, p999 } = outcome;
  return {
    ...{ p50, p99, p999, requestsPerSecond: (outcome.requests * 1e6) / outcome.duration },
    cpu: (after[0] - before[0]) / outcome.requests,
    postgresCpu: (after[1] - before[1]) / outcome.requests,
  };
}

/** A peer may fail some requests on a busy machine. With more errors, its figures are meaningless. */
const MAX_ERROR_RATE = 0.02;

function checkErrors({ name }: Server, { errors, requests }: WrkResult, target = ""): void {
  if (errors === 0) return;
  const text = `${name}: ${errors} of ${requests} requests failed, such as ${target}`;
  if (name === "service" || errors > requests * MAX_ERROR_RATE) throw new Error(text);
  progress(text);
}

const IDLE_CHECK_MS = 100;
/** CPU time in microseconds that an idle server may use between two checks. */
const MAX_IDLE_CPU_US = 10_000;

/** Waits until Postgres and the server have finished the requests of closed connections. */
async function waitUntilIdle(client: pg.Client, server: Server): Promise<void> {
  for (let idleChecks = 0; idleChecks < 2; ) {
    const before = cpuMicroseconds(server.pid);
    await sleep(IDLE_CHECK_MS);
    const { rowCount } = await client.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()`,
    );
    idleChecks = rowCount || cpuMicroseconds(server.pid) - before > MAX_IDLE_CPU_US ? 0 : idleChecks + 1;
  }
}
