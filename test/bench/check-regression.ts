import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { median } from "../support/statistics.js";
import { startEquivalentServers } from "./compare-servers.js";
import { runTurn } from "./measure.js";
import type { Options } from "./options.js";
import { progress } from "./progress.js";
import { markdownTable } from "./report.js";
import { benchFolder } from "./results.js";
import type { Server } from "./servers.js";
import { findOperation, type Session, withSession } from "./session.js";

/** CPU time per request of the service and of Postgres, relative to L. */
interface CpuFigures {
  cpu: number;
  postgresCpu: number;
}

type Recorded = Record<string, CpuFigures>;

const OPERATIONS = ["fetch-form", "list-10", "live-newest", "listings-10", "create", "replay"];
/** V8 compiles hot code within some thousands of requests, which take several turns on a busy machine. */
const WARM_UP_REQUESTS = 5_000;
const MAX_WARM_UP_TURNS = 8;
/** Rounds of one second each. */
const ROUNDS = 11;
/** A ratio may exceed the recorded one by this factor: runs on one machine differ by a tenth. */
const MAX_GROWTH = 1.3;
/** The highest of these is recorded. Machines differ by a third, so record on one with high ratios, which is a busy one. */
const RECORDED_RUNS = 3;

const recordedFile = () => join(benchFolder(), "recorded.json");

/** Compares CPU time per request relative to L with `recorded.json`, and fails if a ratio has grown by more than MAX_GROWTH. */
export async function checkRegression(options: Options): Promise<void> {
  await withSession(options.forms, async (session) => {
    const servers = await startEquivalentServers(session, ["service", "L"]);
    if (options.record) return recordRatios(session, servers, options);
    const recorded = JSON.parse(await readFile(recordedFile(), "utf8")) as Recorded;
    const rows: string[][] = [];
    for (const id of OPERATIONS) {
      const limit = recorded[id];
      if (!limit) throw new Error(`${recordedFile()} has no ${id}: run with --record.`);
      const isWithinLimit = ({ cpu, postgresCpu }: CpuFigures) =>
        cpu <= limit.cpu * MAX_GROWTH && postgresCpu <= limit.postgresCpu * MAX_GROWTH;
      const measured = await measureRatios(session, servers, id, options);
      if (!isWithinLimit(measured)) process.exitCode = 1;
      rows.push([id, isWithinLimit(measured) ? "ok" : "GROWN", ...cells(measured, limit)]);
    }
    const head = ["operation", "", "CPU ÷ L", "recorded", "Postgres CPU ÷ L", "recorded"];
    process.stdout.write(`${markdownTable([head, ...rows])}\n`);
  });
}

const cells = (measured: CpuFigures, limit: CpuFigures) =>
  [measured.cpu, limit.cpu, measured.postgresCpu, limit.postgresCpu].map((ratio) => ratio.toFixed(2));

async function recordRatios(session: Session, servers: Server[], options: Options): Promise<void> {
  const recorded: Recorded = {};
  for (let run = 0; run < RECORDED_RUNS; run++) {
    for (const id of OPERATIONS) {
      const { cpu, postgresCpu } = await measureRatios(session, servers, id, options);
      const highest = recorded[id] ?? { cpu: 0, postgresCpu: 0 };
      recorded[id] = {
        cpu: Math.max(cpu, highest.cpu),
        postgresCpu: Math.max(postgresCpu, highest.postgresCpu),
      };
    }
  }
  await writeFile(recordedFile(), `${JSON.stringify(recorded, null, 2)}\n`);
  progress(`Recorded in ${recordedFile()}.`);
}

/** Medians of the ratios of each round, because other load on the machine changes from round to round. */
async function measureRatios(
  session: Session,
  servers: Server[],
  id: string,
  { connections }: Options,
): Promise<CpuFigures> {
  progress(`Measuring: ${id} …`);
  const load = findOperation(session, id);
  const turn = (server: Server) => runTurn(session.database, server, load, { connections, seconds: 1 });
  for (const server of servers) {
    for (let sent = 0, turns = 0; sent < WARM_UP_REQUESTS && turns < MAX_WARM_UP_TURNS; turns++) {
      sent += (await turn(server)).requestsPerSecond;
    }
  }
  const [service, L] = servers;
  if (!service || !L) throw new Error("Two servers are compared.");
  const ratios: CpuFigures[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const base = await turn(L);
    const own = await turn(service);
    ratios.push({
      cpu: own.cpu / base.cpu,
      postgresCpu: Number(own.postgresCpu) / Number(base.postgresCpu),
    });
  }
  const medianOf = (name: keyof CpuFigures) => Number(median(ratios.map((ratio) => ratio[name])).toFixed(2));
  return { cpu: medianOf("cpu"), postgresCpu: medianOf("postgresCpu") };
}
