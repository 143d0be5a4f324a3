import { cpus } from "node:os";
import { type Figures, medians, runRounds, runTurn } from "./measure.js";
import type { Options } from "./options.js";
import { markdownTable, progress, saveResults } from "./report.js";
import { findOperation, withSession } from "./session.js";

/** Offered load relative to the predicted saturation. */
const LOADS = [0.5, 1, 2];
/** Each client sends its next request this long after a response. */
const THINK_MS = 1_000;
const SECONDS = 20;

interface Measured {
  clients: number;
  predicted: { requestsPerSecond: number; waitMs: number };
  figures: Figures;
}

/**
 * Predicts from CPU time per request of the mixed load when one process saturates, and checks it with half, once and twice
 * that number of clients, each pausing THINK_MS after a response.
 */
export async function measureSaturation(options: Options): Promise<void> {
  await withSession(options.forms, async (session) => {
    const { database } = session;
    const server = await session.start("service");
    const operation = findOperation(session, "mixed");
    progress("Measuring CPU time per request …");
    const [rounds = []] = await runRounds([{ database, server, operation }], options);
    const saturation = predictSaturation(medians(rounds));
    const measured: Measured[] = [];
    for (const load of LOADS) {
      const clients = Math.round(load * saturation);
      progress(`Measuring with ${clients} clients …`);
      const settings = { ...options, connections: clients, seconds: SECONDS, thinkMs: THINK_MS };
      const figures = await runTurn(database, server, operation, settings);
      measured.push({ clients, predicted: predict(clients, saturation), figures });
    }
    process.stdout.write(`predicted saturation: ${saturation.toFixed(0)} requests/s\n\n${saturationTable(measured)}\n`);
    await saveResults(`${options.name}-saturation`, { forms: options.forms, saturation, measured });
  });
}

/** Requests per second at which the process, or all cores together with Postgres, have no time left. */
const predictSaturation = ({ cpu, postgresCpu }: Figures): number =>
  Math.min(1e6 / cpu, (cpus().length * 1e6) / (cpu + (postgresCpu ?? 0)));

/** Interactive response time law: response time = clients ÷ throughput − think time. */
const predict = (clients: number, saturation: number) => {
  const requestsPerSecond = Math.min((clients * 1000) / THINK_MS, saturation);
  return { requestsPerSecond, waitMs: (clients * 1000) / requestsPerSecond - THINK_MS };
};

function saturationTable(measured: readonly Measured[]): string {
  const rows = measured.map(({ clients, predicted, figures }) => [
    ...[clients, predicted.requestsPerSecond, figures.requestsPerSecond, predicted.waitMs].map((value) =>
      value.toFixed(0),
    ),
    ...[figures.p50, figures.p99].map((latency) => (latency / 1000).toPrecision(3)),
  ]);
  const head = ["clients", "predicted requests/s", "measured", "predicted wait ms", "p50 ms", "p99 ms"];
  return markdownTable([head, ...rows]);
}
