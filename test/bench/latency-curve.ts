import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";
import { startEquivalentServers } from "./compare-servers.js";
import { measure } from "./measure.js";
import type { Options } from "./options.js";
import { type Curves, drawLatency } from "./plot.js";
import { markdownTable, progress } from "./report.js";
import { findOperation, withSession } from "./session.js";

const SERVERS = ["service", "L+", "T"] as const;
const CONNECTIONS = [1, 2, 4, 8, 16, 32, 64, 128];

/** Measures the mixed load with more and more connections, and draws latency against requests per second. */
export async function plotLatency(options: Options): Promise<void> {
  await withSession(options.forms, async (session) => {
    const servers = await startEquivalentServers(session, SERVERS);
    const operation = findOperation(session, "mixed");
    const curves: Curves = { service: [], "L+": [], T: [] };
    for (const connections of CONNECTIONS) {
      progress(`Measuring with ${connections} connections …`);
      const result = await measure(session.database, servers, operation, { ...options, connections });
      for (const name of SERVERS) {
        const figures = result.servers[name];
        if (figures) curves[name].push(figures);
      }
    }
    process.stdout.write(`${curveTable(curves)}\n`);
    await writeFile(join(packageRoot(), "gateway/docs/latency.svg"), drawLatency(curves));
  });
}

function curveTable(curves: Curves): string {
  const rows = SERVERS.flatMap((name) =>
    curves[name].map(({ requestsPerSecond, p50, p99 }, index) => [
      ...[name, "", String(CONNECTIONS[index]), requestsPerSecond.toFixed(0)],
      ...[p50, p99].map((latency) => (latency / 1000).toPrecision(3)),
    ]),
  );
  return markdownTable([["server", "", "connections", "requests/s", "p50 ms", "p99 ms"], ...rows]);
}
