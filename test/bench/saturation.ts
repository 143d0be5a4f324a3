import { cpus } from "node:os";
import { type Figures, medians, runRounds, runTurn } from "./measure.js";
import type { Options } from "./options.js";
import { markdownTable, progress } from "./report.js";
import { findOperation, withSession } from "./session.js";

/** Offered load relative to the predicted saturation. */
const LOADS = [0.5, 1, 2];
/** Each client sends its next request this long after a response. */
const THINK_MS = 1_000;
const SECONDS = 20;

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
    const rows = [["clients", "predicted requests/s", "measured", "p50 ms", "p99 ms"]];
    for (const load of LOADS) {
      const clients = Math.round(load * saturation);
      progress(`Measuring with ${clients} clients …`);
      const settings = { ...options, connections: clients, seconds: SECONDS, thinkMs: THINK_MS };
      const { requestsPerSecond, p50, p99 } = await runTurn(database, server, operation, settings);
      const predicted = Math.min((clients * 1000) / THINK_MS, saturation);
      rows.push([
        ...[clients, predicted, requestsPerSecond].map((value) => value.toFixed(0)),
        ...[p50, p99].map((latency) => (latency / 1000).toPrecision(3)),
      ]);
    }
    process.stdout.write(`predicted saturation: ${saturation.toFixed(0)} requests/s\n\n${markdownTable(rows)}\n`);
  });
}

/** Requests per second at which the process, or all cores together with Postgres, have no time left. */
const predictSaturation = ({ cpu, postgresCpu }: Figures): number =>
  Math.min(1e6 / cpu, (cpus().length * 1e6) / (cpu + postgresCpu));
