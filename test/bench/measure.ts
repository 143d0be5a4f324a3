import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { median } from "../support/statistics.js";
import type { Database } from "./database.js";
import type { Operation } from "./operation.js";
import { cpuMicroseconds } from "./process-usage.js";
import { progress } from "./progress.js";
import type { Server, ServerName } from "./servers.js";
import { prepareUndo } from "./undo-writes.js";
import { type BenchRequest, runWrk, type WrkResult } from "./wrk.js";

/** Results of one operation on one server; times in microseconds. */
export interface Figures {
  requestsPerSecond: number;
  p50: number;
  p99: number;
  /** CPU time of the server's processes per request. */
  cpu: number;
  /** CPU time of Postgres per request; null if it runs on another machine. */
  postgresCpu: number | null;
}

export interface Result extends Pick<Operation, "id" | "title" | "scope" | "page"> {
  servers: Partial<Record<ServerName, Figures>>;
  /** The service's figures relative to L's in the same round, medians of the rounds. Changing machine load cancels out. */
  relativeToL?: Record<Ratio, number>;
}

type Ratio = "requestsPerSecond" | "p99" | "cpu";

export interface LoadSettings {
  rounds: number;
  seconds: number;
  /** Unmeasured load before each turn, because a server that was idle uses far more CPU time at first. */
  warmUpSeconds: number;
  connections: number;
}

const MAX_TURN_SECONDS = 20;

/** Measures the operation on each server in turn, in several rounds. */
export async function measure(
  database: Database,
  servers: readonly Server[],
  operation: Operation,
  settings: LoadSettings,
): Promise<Result> {
  const longerTurns = new Map<ServerName, number>();
  /** Runs a turn, and a longer one if not every connection got a response, up to MAX_TURN_SECONDS. */
  const measureTurn = async (server: Server, warmUpFactor: number): Promise<Figures> => {
    const seconds = longerTurns.get(server.name) ?? settings.seconds;
    const warmUpSeconds = seconds > settings.seconds ? 0 : settings.warmUpSeconds * warmUpFactor;
    const figures = await runTurn(database, server, operation, { ...settings, seconds, warmUpSeconds });
    if (figures.requestsPerSecond * seconds >= settings.connections || seconds >= MAX_TURN_SECONDS)
      return figures;
    longerTurns.set(server.name, Math.min(seconds * 3, MAX_TURN_SECONDS));
    return measureTurn(server, warmUpFactor);
  };
  const results = new Map<ServerName, Figures[]>(servers.map(({ name }) => [name, []]));
  for (let round = 0; round < settings.rounds; round++) {
    // T is much slower, so it runs only at the end of the first round and, if its turns are short, of the last. After it,
    // the others need a longer warm-up. Their order alternates.
    const isFirstOrLast = round === 0 || (round === settings.rounds - 1 && !longerTurns.has("T"));
    const serversExceptT = servers.filter(({ name }) => name !== "T");
    if (round % 2) serversExceptT.reverse();
    for (const server of [
      ...serversExceptT,
      ...servers.filter(({ name }) => name === "T" && isFirstOrLast),
    ]) {
      results.get(server.name)?.push(await measureTurn(server, round === 1 ? 3 : 1));
    }
  }
  const { id, title, scope, page } = operation;
  return {
    id,
    title,
    ...(scope !== undefined && { scope }),
    ...(page !== undefined && { page }),
    servers: Object.fromEntries([...results].map(([name, figures]) => [name, medians(figures)])),
    ...ratios(results.get("service"), results.get("L")),
  };
}

function ratios(service?: Figures[], L?: Figures[]): Pick<Result, "relativeToL"> {
  if (!service || !L) return {};
  const of = (name: Ratio) =>
    median(service.map((own, round) => own[name] / (L[round]?.[name] ?? Number.NaN)));
  return { relativeToL: { requestsPerSecond: of("requestsPerSecond"), p99: of("p99"), cpu: of("cpu") } };
}

/** Each load gets its own range of create numbers. */
let nextSerial = 0;
const SERIALS_PER_LOAD = 1_000_000;

/** Runs one load on one server. Ends when the server and Postgres are idle, and restores the database. */
export async function runTurn(
  database: Database,
  server: Server,
  { requests, refresh, writes }: Pick<Operation, "requests" | "refresh" | "writes">,
  {
    connections,
    seconds,
    warmUpSeconds = 0,
  }: Pick<LoadSettings, "connections" | "seconds"> & Partial<LoadSettings>,
): Promise<Figures> {
  const { client, postmasterPid } = database;
  const undo = writes ? await prepareUndo(client) : undefined;
  const currentRequests = async () => refresh?.() ?? requests;
  const load = (requests: BenchRequest[], seconds: number) => {
    nextSerial += SERIALS_PER_LOAD;
    return runWrk(server.url, { requests, connections, seconds, firstSerial: nextSerial });
  };
  if (warmUpSeconds > 0) await load(await currentRequests(), warmUpSeconds);
  const measured = await currentRequests();
  const cpu = () =>
    [cpuMicroseconds(server.pid), postmasterPid ? cpuMicroseconds(postmasterPid) : 0] as const;
  const before = cpu();
  const outcome = await load(measured, seconds);
  const after = cpu();
  await waitUntilIdle(client, server);
  await undo?.();
  checkErrors(server, outcome, requests[0]?.target);
  return {
    ...throughputOf(outcome),
    cpu: (after[0] - before[0]) / outcome.requests,
    postgresCpu: postmasterPid ? (after[1] - before[1]) / outcome.requests : null,
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

const throughputOf = ({ requests, duration, p50, p99 }: WrkResult) => ({
  requestsPerSecond: (requests * 1e6) / duration,
  p50,
  p99,
});

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

function medians(rounds: Figures[]): Figures {
  const of = (pick: (figures: Figures) => number) => median(rounds.map(pick));
  return {
    requestsPerSecond: of((round) => round.requestsPerSecond),
    p50: of((round) => round.p50),
    p99: of((round) => round.p99),
    cpu: of((round) => round.cpu),
    postgresCpu: rounds[0]?.postgresCpu === null ? null : of((round) => round.postgresCpu ?? 0),
  };
}
