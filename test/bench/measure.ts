import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { cpuOf } from "./process-usage.js";
import type { Database } from "./database.js";
import { type Outcome, type Request, run } from "./wrk.js";
import type { Operation } from "./operation.js";
import { progress } from "./progress.js";
import type { Server, ServerName } from "./servers.js";
import { markWrites } from "./undo-writes.js";

/** What one server made of one operation; medians of the rounds, times in microseconds. */
export interface Figures {
  requestsPerSecond: number;
  p50: number;
  p99: number;
  /** Processor time of the server's processes, a request. */
  cpu: number;
  /** Processor time of Postgres, a request; null where it runs elsewhere. */
  postgresCpu: number | null;
}

export interface Result extends Pick<Operation, "id" | "title" | "scope" | "page"> {
  servers: Partial<Record<ServerName, Figures>>;
  /** The service's figures as multiples of L's in the same round, medians of the rounds: the machine's moods cancel out. */
  toL?: Record<Ratio, number>;
}

type Ratio = "requestsPerSecond" | "p99" | "cpu";

export interface Pace {
  rounds: number;
  seconds: number;
  /** Load before each turn that is not measured: a server that was idle for long takes far more processor time at first. */
  warmSeconds: number;
  connections: number;
}

const MAX_SECONDS = 20;

/** Measures the operation on each server in turn, round after round. */
export async function measure(
  database: Database,
  servers: readonly Server[],
  operation: Operation,
  pace: Pace,
): Promise<Result> {
  const patience = new Map<ServerName, number>();
  /** A turn that is long enough for each connection to have an answer, as far as that goes. */
  const patiently = async (server: Server, warmth: number): Promise<Figures> => {
    const seconds = patience.get(server.name) ?? pace.seconds;
    const warmSeconds = seconds > pace.seconds ? 0 : pace.warmSeconds * warmth;
    const figures = await turn(database, server, operation, { ...pace, seconds, warmSeconds });
    if (figures.requestsPerSecond * seconds >= pace.connections || seconds >= MAX_SECONDS) return figures;
    patience.set(server.name, Math.min(seconds * 3, MAX_SECONDS));
    return patiently(server, warmth);
  };
  const taken = new Map<ServerName, Figures[]>(servers.map(({ name }) => [name, []]));
  for (let round = 0; round < pace.rounds; round++) {
    // T is no close match: it ends the first round and, unless a turn of its takes long, the last. The others are warmed
    // up longer after it; each of them is the first in turn.
    const isAtAnEnd = round === 0 || (round === pace.rounds - 1 && !patience.has("T"));
    const close = servers.filter(({ name }) => name !== "T");
    if (round % 2) close.reverse();
    for (const server of [...close, ...servers.filter(({ name }) => name === "T" && isAtAnEnd)]) {
      taken.get(server.name)?.push(await patiently(server, round === 1 ? 3 : 1));
    }
  }
  const { id, title, scope, page } = operation;
  return {
    id,
    title,
    ...(scope !== undefined && { scope }),
    ...(page !== undefined && { page }),
    servers: Object.fromEntries([...taken].map(([name, figures]) => [name, medians(figures)])),
    ...ratios(taken.get("service"), taken.get("L")),
  };
}

function ratios(service?: Figures[], L?: Figures[]): Pick<Result, "toL"> {
  if (!service || !L) return {};
  const of = (name: Ratio) =>
    median(service.map((own, round) => own[name] / (L[round]?.[name] ?? Number.NaN)));
  return { toL: { requestsPerSecond: of("requestsPerSecond"), p99: of("p99"), cpu: of("cpu") } };
}

/** Numbers of creates: each load gets a range of its own. */
let serial = 0;
const SERIALS = 1_000_000;

/** One server's turn. It ends with a server and a database at rest, and the database holds what it held before. */
export async function turn(
  database: Database,
  server: Server,
  { requests, renew, writes }: Pick<Operation, "requests" | "renew" | "writes">,
  { connections, seconds, warmSeconds = 0 }: Pick<Pace, "connections" | "seconds"> & Partial<Pace>,
): Promise<Figures> {
  const { client, postmaster } = database;
  const undo = writes ? await markWrites(client) : undefined;
  const current = async () => renew?.() ?? requests;
  const load = (requests: Request[], seconds: number) => {
    serial += SERIALS;
    return run(server.url, { requests, connections, seconds, serial });
  };
  if (warmSeconds > 0) await load(await current(), warmSeconds);
  const measured = await current();
  const cpu = () => [cpuOf(server.pid), postmaster ? cpuOf(postmaster) : 0] as const;
  const before = cpu();
  const outcome = await load(measured, seconds);
  const after = cpu();
  await comeToRest(client, server);
  await undo?.();
  complain(server, outcome, requests[0]?.target);
  return {
    ...speedOf(outcome),
    cpu: (after[0] - before[0]) / outcome.requests,
    postgresCpu: postmaster ? (after[1] - before[1]) / outcome.requests : null,
  };
}

/** A peer may lose some requests on a busy machine; figures of a server that fails more are none. */
const MAX_ERRORS = 0.02;

function complain({ name }: Server, { errors, requests }: Outcome, target = ""): void {
  if (errors === 0) return;
  const text = `${name}: ${errors} of ${requests} requests failed, such as ${target}`;
  if (name === "service" || errors > requests * MAX_ERRORS) throw new Error(text);
  progress(text);
}

const speedOf = ({ requests, duration, p50, p99 }: Outcome) => ({
  requestsPerSecond: (requests * 1e6) / duration,
  p50,
  p99,
});

const WATCH_MS = 100;
/** What a server at rest may use in that time: microseconds. */
const AT_REST = 10_000;

/** Waits for the end of what Postgres and the server go on doing for clients that have gone. */
async function comeToRest(client: pg.Client, server: Server): Promise<void> {
  for (let quiet = 0; quiet < 2; ) {
    const before = cpuOf(server.pid);
    await sleep(WATCH_MS);
    const { rowCount } = await client.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()`,
    );
    quiet = rowCount || cpuOf(server.pid) - before > AT_REST ? 0 : quiet + 1;
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

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [low = 0, high = 0] = [sorted[sorted.length % 2 ? middle : middle - 1], sorted[middle]];
  return (low + high) / 2;
}
