import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";
import { assertEquivalent } from "./equivalence.js";
import { openFilled } from "./fill.js";
import { type Figures, medians, ratios, runRounds, runTurn, type Subject } from "./measure.js";
import { createOperations, isSelected } from "./operations.js";
import type { Options } from "./options.js";
import { markdownTable, progress } from "./report.js";
import { startServer } from "./servers.js";

type Ratios = Partial<Figures>;

/** What `--record` writes. */
interface Recorded {
  /** Major version of Node.js. Another one has other ratios. */
  node: string;
  /** CPU time relative to L+, by operation. */
  ratios: Record<string, Ratios>;
}

/** A ratio may exceed the recorded one by this factor. */
const MARGIN = 1.3;
/** A limit is exceeded if it is in each of these measurements: other load can raise a ratio, for a while. */
const MEASUREMENTS = 3;
/** Peer T is measured once, because it is not judged and leaves the caches in disorder. */
const SECONDS_OF_T = 6;

const FEW_FORMS = 10_000;
/** Limit of the latency with many forms relative to that with few. */
const GROWTH: Ratios = { p50: 1.3 };

const RECORDED_FILE = join(packageRoot(), "test/bench/recorded.json");
const NODE = process.versions.node.split(".")[0] ?? "";

/** The limits of one operation; exceeded by any figure if it was not recorded. */
export function limitsOf(id: string, { ratios }: Pick<Recorded, "ratios">): Ratios {
  const { cpu = 0, postgresCpu = 0 } = ratios[id] ?? {};
  return { cpu: cpu * MARGIN, postgresCpu: postgresCpu * MARGIN };
}

/** Names the figures that exceed their limit, or were not measured. */
export const findExceeded = (measured: Ratios, limits: Ratios): string[] =>
  Object.entries(limits).flatMap(([name, limit]) =>
    Number(measured[name as keyof Figures]) <= limit ? [] : [`${name} > ${limit.toFixed(2)}`],
  );

/** Compares the service with its peers, and with `recorded.json`. Returns whether all operations are within their limits. */
export async function compareServers({ mode, forms, only, rounds, quick }: Options) {
  const recorded = JSON.parse(readFileSync(RECORDED_FILE, "utf8")) as Recorded;
  if (mode === "check" && recorded.node !== NODE) throw new Error(`recorded.json is for Node.js ${recorded.node}.`);
  const isJudged = mode !== "record" && !quick && recorded.node === NODE;
  const database = await openFilled(forms);
  const operations = await createOperations(database.client);
  const names = ["service", "L+", "T"] as const;
  const started = names.slice(0, mode === "compare" ? 3 : 2).map((name) => startServer(name, database.url));
  const servers = await Promise.all(started);
  await assertEquivalent(servers, database, operations);
  const selected = operations.filter(isSelected(only));
  const subjects = selected.map((operation) => servers.map((server) => ({ database, server, operation })));
  const results = await measureAll(subjects, rounds, (id) => (isJudged ? limitsOf(id, recorded) : {}));
  if (!isJudged) progress(`Not judged: only without --quick and --record, on Node.js ${recorded.node}.`);
  if (mode === "record") writeFileSync(RECORDED_FILE, formatRecorded(results));
  return report(results, "L+");
}

/** Compares the service with many forms and with few. Returns whether no latency grows too much. */
export async function measureGrowth({ forms, only, rounds }: Options): Promise<boolean> {
  const sides: Subject[][] = [];
  for (const database of [await openFilled(forms), await openFilled(FEW_FORMS)]) {
    const server = await startServer("service", database.url);
    const operations = (await createOperations(database.client)).filter(isSelected(only));
    sides.push(operations.map((operation) => ({ database, server, operation })));
  }
  const [many = [], few = []] = sides;
  const pairs = many.map((subject, index) => [subject, few[index] ?? subject]);
  const results = await measureAll(pairs, rounds, () => GROWTH);
  return report(results, "10,000 forms");
}

interface Result {
  id: string;
  service: Figures;
  /** The service's figures relative to the peer's. */
  ratios: Figures;
  T: Figures | undefined;
  exceeded: string[];
}

/** Measures each operation on the service and the peer, and again if a limit is exceeded, and on T. */
async function measureAll(all: Subject[][], rounds: number, limits: (id: string) => Ratios): Promise<Result[]> {
  const results: Result[] = [];
  for (const [service, peer, T] of all as [Subject, Subject, Subject?][]) {
    const { id } = service.operation;
    const measure = async (n = 1): Promise<Omit<Result, "T">> => {
      progress(`Measuring: ${id} …`);
      const [own = [], others = []] = await runRounds([service, peer], rounds);
      const measured = ratios(own, others);
      const exceeded = findExceeded(measured, limits(id));
      if (exceeded.length > 0 && n < MEASUREMENTS) return measure(n + 1);
      return { id, service: medians(own), ratios: measured, exceeded };
    };
    // T replays nothing.
    results.push({ ...(await measure()), T: T && id !== "replay" ? await runTurn(T, SECONDS_OF_T) : undefined });
  }
  return results;
}

function formatRecorded(results: readonly Result[]): string {
  const entries = results.map(({ id, ratios: { cpu, postgresCpu } }) => [id, { cpu, postgresCpu }]);
  const round = (_: string, value: unknown) => (typeof value === "number" ? Number(value.toFixed(2)) : value);
  return `${JSON.stringify({ node: NODE, ratios: Object.fromEntries(entries) }, round, 2)}\n`;
}

/** Prints absolute figures of the service, and ratios. Returns whether all operations are within their limits. */
function report(results: readonly Result[], peer: string): boolean {
  const rows = results.map(({ id, service, ratios, T, exceeded }) => [
    id,
    ...[service.requestsPerSecond, service.cpu, service.postgresCpu].map((value) => value.toFixed(0)),
    ...[service.p50, service.p99, service.p999].map((microseconds) => (microseconds / 1000).toFixed(1)),
    ...Object.values(ratios).map((ratio) => ratio.toFixed(2)),
    T ? (service.requestsPerSecond / T.requestsPerSecond).toFixed(1) : "",
    exceeded.join(", "),
  ]);
  const absolute = ["requests/s", "CPU µs", "Postgres CPU µs", "p50 ms", "p99 ms", "p99.9 ms"];
  const relative = ["requests/s", "CPU", "Postgres CPU", "p50", "p99", "p99.9"].map((name) => `${name} ÷ ${peer}`);
  const head = ["operation", ...absolute, ...relative, "requests/s ÷ T", "exceeded"];
  process.stdout.write(markdownTable([head, ...rows]));
  return results.every(({ exceeded }) => exceeded.length === 0);
}
