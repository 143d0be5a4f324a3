import { median } from "../support/statistics.js";
import { type Figures, measure, runTurn } from "./measure.js";
import type { Options } from "./options.js";
import { residentBytes } from "./process-usage.js";
import { progress } from "./progress.js";
import { markdownTable } from "./report.js";
import { saveResults } from "./results.js";
import { findOperation, type Session, withSession } from "./session.js";
import type { BenchRequest } from "./wrk.js";

const SMALL_FORMS = 10_000;
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
    const growthFactor = small && large ? (large.p50 / small.p50).toFixed(2) : "";
    const postgresMs = large?.postgresCpu == null ? "" : ms(large.postgresCpu);
    return [id, ...figures.map((own) => (own ? ms(own.p50) : "")), growthFactor, postgresMs];
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
  const requests = mixedRequests(session);
  const lines = ["minutes of mixed load: memory of the process, MiB; requests/s"];
  for (let slice = 1; slice * SLICE_SECONDS <= minutes * 60; slice++) {
    const { requestsPerSecond } = await runTurn(
      session.database,
      service,
      { requests, writes: true },
      { connections, seconds: SLICE_SECONDS },
    );
    const line = `${(slice * SLICE_SECONDS) / 60}: ${Math.round(residentBytes(service.pid) / MIB)}; ${requestsPerSecond.toFixed(0)}`;
    progress(line);
    lines.push(line);
  }
  await service.stop();
  return lines;
}

/** Percentage of each operation in the mixed load. */
const MIX_PERCENT = {
  "fetch-form": 40,
  "list-10": 20,
  "list-10000": 5,
  "deep-10000": 5,
  "deep-1000": 5,
  "listings-10": 10,
  "fetch-listing": 10,
  create: 5,
};

function mixedRequests(session: Session): BenchRequest[] {
  const rounds = 100;
  const requestOf = (id: string, index: number) => {
    const { requests } = findOperation(session, id);
    return requests[index % requests.length] as BenchRequest;
  };
  return Array.from({ length: rounds }, (_, round) =>
    Object.entries(MIX_PERCENT).flatMap(([id, share]) =>
      Array.from({ length: share }, (_, index) => requestOf(id, round * share + index)),
    ),
  ).flat();
}
