import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { median } from "../support/statistics.js";
import { startEquivalentServers } from "./compare-servers.js";
import { type Figures, ratios, runRounds, runTurn } from "./measure.js";
import type { Options } from "./options.js";
import { machineCpuMicroseconds } from "./process-usage.js";
import { benchFolder, markdownTable, progress } from "./report.js";
import type { Server } from "./servers.js";
import { findOperation, type Session, withSession } from "./session.js";

/** CPU time per request of the service and of Postgres, relative to L. */
export type CpuFigures = Pick<Figures, "cpu" | "postgresCpu">;

/** What `--record` writes. */
export interface Recorded {
  /** Major version of Node.js. Another one has other ratios. */
  node: string;
  ratios: Record<string, CpuFigures>;
}

export const OPERATIONS = ["fetch-form", "list-10", "live-newest", "listings-10", "create", "replay"];
/** V8 compiles hot code within some thousands of requests, which take several turns on a busy machine. */
const WARM_UP_REQUESTS = 5_000;
const MAX_WARM_UP_TURNS = 8;
/** Rounds of one second each. */
const ROUNDS = 7;
/** A ratio may exceed the recorded one by this factor: runs on one machine differ by a tenth. See also `machineGrowth`. */
export const MAX_GROWTH = 1.3;
/** An operation has grown if it exceeds its limit in each of these measurements: other load can raise a ratio, for a while. */
const MEASUREMENTS = 3;
/** The medians of these runs are recorded. */
const RECORDED_RUNS = 3;
/** Other processes on a quiet machine use less than this share of one core. */
export const MAX_OTHER_LOAD = 0.1;
const QUIET_CHECK_MS = 3_000;

const recordedFile = () => join(benchFolder(), "recorded.json");
export const readRecorded = async (): Promise<Recorded> => JSON.parse(await readFile(recordedFile(), "utf8"));

/**
 * Compares CPU time per request relative to L with `recorded.json`. Returns false if the ratios, or one of them beyond the others,
 * have grown by more than MAX_GROWTH.
 */
export async function checkRegression(options: Options): Promise<boolean> {
  const recorded = options.record ? undefined : await readRecorded();
  if (recorded) assertSameNode(recorded);
  return withSession(options.forms, async (session) => {
    const servers = await startEquivalentServers(session, ["service", "L"]);
    const measureOperation = (id: string) => measureRatios(session, servers, id, options);
    if (recorded) return compareWithRecorded(recorded, measureOperation);
    const ratios = await recordRatios(measureOperation, measureOtherLoad);
    const written: Recorded = { node: nodeMajor(process.versions.node), ratios };
    await writeFile(recordedFile(), `${JSON.stringify(written, null, 2)}\n`);
    progress(`Recorded in ${recordedFile()}.`);
    return true;
  });
}

type MeasureOperation = (id: string) => Promise<CpuFigures>;

const nodeMajor = (version: string) => version.split(".")[0] ?? "";

/** Throws unless the ratios were recorded with this major version of Node.js. */
export function assertSameNode({ node }: Pick<Recorded, "node">, version = process.versions.node): void {
  if (nodeMajor(version) !== node)
    throw new Error(
      `recorded.json is for Node.js ${node}, and this is ${version}. Use that version, or run with --record.`,
    );
}

const FIGURES = ["cpu", "postgresCpu"] as const;

/**
 * How much higher the ratios are on this machine than on the one that recorded: the median growth of all operations, at least 1. L
 * does so little that its share depends on the processor.
 */
const machineGrowth = (measured: Recorded["ratios"], recorded: Recorded["ratios"], figure: keyof CpuFigures) =>
  Math.max(1, median(OPERATIONS.map((id) => (measured[id]?.[figure] ?? NaN) / (recorded[id]?.[figure] ?? NaN))));

/** The operations whose ratios have grown by more than MAX_GROWTH, beyond what all have, and all if all have. */
function grownOperations(measured: Recorded["ratios"], recorded: Recorded["ratios"]): string[] {
  const limits = FIGURES.map((figure) => [figure, machineGrowth(measured, recorded, figure)] as const);
  const isWithin = (id: string) =>
    limits.every(
      ([figure, machine]) =>
        machine <= MAX_GROWTH &&
        (measured[id]?.[figure] ?? NaN) <= (recorded[id]?.[figure] ?? NaN) * machine * MAX_GROWTH,
    );
  return OPERATIONS.filter((id) => !isWithin(id));
}

/** Prints the ratios. Returns whether every operation is within its limit. */
export async function compareWithRecorded(
  { ratios: recorded }: Pick<Recorded, "ratios">,
  measureOperation: MeasureOperation,
): Promise<boolean> {
  const missing = OPERATIONS.find((id) => !recorded[id]);
  if (missing) throw new Error(`${recordedFile()} has no ${missing}: run with --record.`);
  const measured: Recorded["ratios"] = {};
  let due = OPERATIONS;
  for (let n = 0; n < MEASUREMENTS && due.length > 0; n++) {
    for (const id of due) measured[id] = await measureOperation(id);
    due = grownOperations(measured, recorded);
  }
  const rows = OPERATIONS.map((id) => [id, due.includes(id) ? "GROWN" : "ok", ...cells(measured[id], recorded[id])]);
  const head = ["operation", "", "CPU ÷ L", "recorded", "Postgres CPU ÷ L", "recorded"];
  process.stdout.write(`${markdownTable([head, ...rows])}\n`);
  return due.length === 0;
}

const cells = (measured: CpuFigures | undefined, recorded: CpuFigures | undefined) =>
  FIGURES.flatMap((figure) => [measured, recorded].map((ratios) => ratios?.[figure].toFixed(2) ?? ""));

/** Returns the medians of several runs. Throws unless the machine is quiet before and after each run. */
export async function recordRatios(
  measureOperation: MeasureOperation,
  measureLoad: () => Promise<number>,
): Promise<Recorded["ratios"]> {
  const runs = new Map<string, CpuFigures[]>(OPERATIONS.map((id) => [id, []]));
  const assertQuiet = async () => {
    const load = await measureLoad();
    if (load > MAX_OTHER_LOAD)
      throw new Error(
        `The machine is not quiet: other processes use ${load.toFixed(2)} cores. Stop them, then run again.`,
      );
  };
  await assertQuiet();
  for (let run = 0; run < RECORDED_RUNS; run++) {
    for (const [id, figures] of runs) figures.push(await measureOperation(id));
    await assertQuiet();
  }
  const medianOf = (figures: CpuFigures[], name: keyof CpuFigures) =>
    toHundredths(median(figures.map((each) => each[name])));
  return Object.fromEntries(
    [...runs].map(([id, figures]) => [
      id,
      { cpu: medianOf(figures, "cpu"), postgresCpu: medianOf(figures, "postgresCpu") },
    ]),
  );
}

/** The cores that the machine uses while the servers are idle. */
const measureOtherLoad = async (): Promise<number> => {
  const before = machineCpuMicroseconds();
  await sleep(QUIET_CHECK_MS);
  return (machineCpuMicroseconds() - before) / (QUIET_CHECK_MS * 1000);
};

/** Medians of the ratios of each round, because other load on the machine changes from round to round. */
async function measureRatios(
  session: Session,
  servers: Server[],
  id: string,
  { connections }: Options,
): Promise<CpuFigures> {
  progress(`Measuring: ${id} …`);
  const { database } = session;
  const operation = findOperation(session, id);
  const settings = { connections, seconds: 1, warmUpSeconds: 0, rounds: ROUNDS };
  for (const server of servers) {
    for (let sent = 0, turns = 0; sent < WARM_UP_REQUESTS && turns < MAX_WARM_UP_TURNS; turns++) {
      sent += (await runTurn(database, server, operation, settings)).requestsPerSecond;
    }
  }
  const subjects = servers.map((server) => ({ database, server, operation }));
  const [service = [], L = []] = await runRounds(subjects, settings);
  const { cpu, postgresCpu } = ratios(service, L);
  return { cpu: toHundredths(cpu), postgresCpu: toHundredths(postgresCpu) };
}

const toHundredths = (value: number) => Number(value.toFixed(2));
