import { median } from "../support/statistics.js";
import { type Figures, measure, runTurn } from "./measure.js";
import type { Options } from "./options.js";
import { residentBytes } from "./process-usage.js";
import { progress } from "./progress.js";
import { markdownTable } from "./report.js";
import { saveResults } from "./results.js";
import { findOperation, type Session, withSession } from "./session.js";

const SMALL_FORMS = 10_000;
/** Maximum factor by which the median latency may grow with the number of forms. */
const MAX_GROWTH = 1.5;
const STARTS = 5;

/** Measures latency by number of forms, memory over time, and throughput with a second process. */
export async function measureGrowth(options: Options): Promise<void> {
  const sizes = [SMALL_FORMS, options.forms];
  const latencies: Record<string, Record<number, Figures>> = {};
  for (const forms of sizes) {
    await withSession(forms, async (session) => {
      const service = await session.start("service");
      for (const operation of session.operations) {
        progress(`Measuring with ${forms} forms: ${operation.title} …`);
        const { servers } = await measure(session.database, [service], operation, options);
        const figures = servers.service;
        if (figures) latencies[operation.id] = { ...latencies[operation.id], [forms]: figures };
      }
    });
  }
  process.stdout.write(`${latencyTable(latencies, sizes)}\n\n`);
  await withSession(options.forms, async (session) => {
    const startupMs = await measureStartup(session);
    const workers = await measureWorkers(session, options);
    const memory = await measureMemory(session, options);
    process.stdout.write(
      `startup to ready: ${startupMs.toFixed(0)} ms, median of ${STARTS}\n\n${markdownTable(workers)}\n\n${memory.join("\n")}\n`,
    );
    await saveResults(`${options.name}-growth`, {
      forms: options.forms,
      latencies,
      startupMs,
      workers,
      memory,
    });
  });
}

function latencyTable(latencies: Record<string, Record<number, Figures>>, sizes: number[]): string {
  const ms = (microseconds: number) => (microseconds / 1000).toFixed(2);
  const head = [
    "operation",
    ...sizes.map((size) => `p50 ms, ${size.toLocaleString("en")} forms`),
    "growth",
    "Postgres ms",
  ];
  const rows = Object.entries(latencies).map(([id, bySize]) => {
    const figures = sizes.map((size) => bySize[size]);
    const [small, large] = [figures[0], figures.at(-1)];
    const growth = small && large ? large.p50 / small.p50 : Number.NaN;
    if (!(growth <= MAX_GROWTH)) process.exitCode = 1;
    const growthCell = `${growth.toFixed(2)}${growth <= MAX_GROWTH ? "" : " MISSED"}`;
    const postgresMs = large?.postgresCpu == null ? "" : ms(large.postgresCpu);
    return [id, ...figures.map((own) => (own ? ms(own.p50) : "")), growthCell, postgresMs];
  });
  return markdownTable([head, ...rows]);
}

/** Median milliseconds from the start of the process until /readyz returns 200. */
async function measureStartup(session: Session): Promise<number> {
  const times: number[] = [];
  for (let start = 0; start < STARTS; start++) {
    const server = await session.start("service");
    times.push(server.startupMs);
    await server.stop();
  }
  return median(times);
}

async function measureWorkers(session: Session, options: Options): Promise<string[][]> {
  const rows = [
    ["operation", "requests/s, 1 process", "2 workers", "ratio", "p99 ms, 1 process", "2 workers"],
  ];
  const single = await session.start("service");
  const pair = await session.start("service", { args: ["--workers", "2"] });
  for (const id of ["fetch-form", "list-10", "create"]) {
    progress(`Measuring 1 process and 2 workers: ${id} …`);
    const [one, two] = [single, pair].map(
      (server) => () => measure(session.database, [server], findOperation(session, id), options),
    );
    const [first, second] = [(await one?.())?.servers.service, (await two?.())?.servers.service];
    if (!first || !second) continue;
    const throughput = [first, second].map((own) => own.requestsPerSecond.toFixed(0));
    const p99 = [first, second].map((own) => (own.p99 / 1000).toFixed(1));
    rows.push([id, ...throughput, (second.requestsPerSecond / first.requestsPerSecond).toFixed(2), ...p99]);
  }
  await single.stop();
  await pair.stop();
  return rows;
}

const SLICE_SECONDS = 30;
const MIB = 2 ** 20;

/** Measures the memory of the process every half minute of mixed load. */
async function measureMemory(session: Session, { minutes, connections }: Options): Promise<string[]> {
  const service = await session.start("service");
  const mixed = findOperation(session, "mixed");
  const lines = ["minutes of mixed load: memory of the process, MiB; requests/s"];
  for (let slice = 1; slice * SLICE_SECONDS <= minutes * 60; slice++) {
    const load = { connections, seconds: SLICE_SECONDS };
    const { requestsPerSecond } = await runTurn(session.database, service, mixed, load);
    const line = `${(slice * SLICE_SECONDS) / 60}: ${Math.round(residentBytes(service.pid) / MIB)}; ${requestsPerSecond.toFixed(0)}`;
    progress(line);
    lines.push(line);
  }
  await service.stop();
  return lines;
}
