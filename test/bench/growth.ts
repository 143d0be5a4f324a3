import { memoryOf } from "./process-usage.js";
import type { Request } from "./wrk.js";
import { type Figures, measure, median, turn } from "./measure.js";
import type { Options } from "./options.js";
import { progress } from "./progress.js";
import { markdown } from "./report.js";
import { saveResults } from "./results.js";
import { operation, type Session, withSession } from "./session.js";

const SMALL = 10_000;
const STARTS = 5;

/** What becomes of latency with the number of forms, of memory with time, and of speed with a second process. */
export async function growth(options: Options): Promise<void> {
  const sizes = [SMALL, options.forms];
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
    const startedIn = await startTimes(session);
    const workers = await workersTable(session, options);
    const memory = await memoryOverTime(session, options);
    process.stdout.write(
      `start to ready: ${startedIn.toFixed(0)} ms, median of ${STARTS}\n\n${markdown(workers)}\n\n${memory.join("\n")}\n`,
    );
    await saveResults(`${options.name}-growth`, {
      forms: options.forms,
      latencies,
      startedIn,
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
    const grown = small && large ? (large.p50 / small.p50).toFixed(2) : "";
    const database = large?.postgresCpu == null ? "" : ms(large.postgresCpu);
    return [id, ...figures.map((own) => (own ? ms(own.p50) : "")), grown, database];
  });
  return markdown([head, ...rows]);
}

/** Milliseconds from the start of the process to its first answer of /readyz. */
async function startTimes(session: Session): Promise<number> {
  const times: number[] = [];
  for (let start = 0; start < STARTS; start++) {
    const server = await session.start("service");
    times.push(server.startedIn);
    await server.stop();
  }
  return median(times);
}

async function workersTable(session: Session, options: Options): Promise<string[][]> {
  const rows = [
    ["operation", "requests/s, 1 process", "2 workers", "ratio", "p99 ms, 1 process", "2 workers"],
  ];
  const alone = await session.start("service");
  const pair = await session.start("service", { args: ["--workers", "2"] });
  for (const id of ["fetch-form", "list-10", "create"]) {
    progress(`Measuring 1 process and 2 workers: ${id} …`);
    const [one, two] = [alone, pair].map(
      (server) => () => measure(session.database, [server], operation(session, id), options),
    );
    const [first, second] = [(await one?.())?.servers.service, (await two?.())?.servers.service];
    if (!first || !second) continue;
    const speed = [first, second].map((own) => own.requestsPerSecond.toFixed(0));
    const late = [first, second].map((own) => (own.p99 / 1000).toFixed(1));
    rows.push([id, ...speed, (second.requestsPerSecond / first.requestsPerSecond).toFixed(2), ...late]);
  }
  await alone.stop();
  await pair.stop();
  return rows;
}

const SLICE_SECONDS = 30;
const MEBI = 2 ** 20;

/** Memory of the process every half minute of mixed load: of 100 requests, 5 create and 10 read deep pages. */
async function memoryOverTime(session: Session, { minutes, connections }: Options): Promise<string[]> {
  const service = await session.start("service");
  const requests = mixed(session);
  const lines = ["minutes of mixed load: memory of the process, MiB; requests/s"];
  for (let slice = 1; slice * SLICE_SECONDS <= minutes * 60; slice++) {
    const { requestsPerSecond } = await turn(
      session.database,
      service,
      { requests, writes: true },
      { connections, seconds: SLICE_SECONDS },
    );
    const line = `${(slice * SLICE_SECONDS) / 60}: ${Math.round(memoryOf(service.pid) / MEBI)}; ${requestsPerSecond.toFixed(0)}`;
    progress(line);
    lines.push(line);
  }
  await service.stop();
  return lines;
}

const SHARES = {
  "fetch-form": 40,
  "list-10": 20,
  "list-10000": 5,
  "deep-10000": 5,
  "deep-1000": 5,
  "listings-10": 10,
  "fetch-listing": 10,
  create: 5,
};

function mixed(session: Session): Request[] {
  const rounds = 100;
  const of = (id: string, index: number) => {
    const { requests } = operation(session, id);
    return requests[index % requests.length] as Request;
  };
  return Array.from({ length: rounds }, (_, round) =>
    Object.entries(SHARES).flatMap(([id, share]) =>
      Array.from({ length: share }, (_, index) => of(id, round * share + index)),
    ),
  ).flat();
}
