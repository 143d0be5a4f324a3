import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { compareCreates, compareReads } from "./check-equivalence.js";
import { measure, type Result, turn } from "./measure.js";
import type { Operation } from "./operation.js";
import type { Options } from "./options.js";
import { plot } from "./plot.js";
import { progress } from "./progress.js";
import { table } from "./report.js";
import { benchFolder, saveResults } from "./results.js";
import { SERVERS, type Server, type ServerName } from "./servers.js";
import { operation, type Session, withSession } from "./session.js";
import { targetTable } from "./targets.js";
import { markWrites } from "./undo-writes.js";

/** This service beside its peers: same bytes, then every operation in interleaved rounds. */
export async function compete(options: Options): Promise<void> {
  await withSession(options.forms, async (session) => {
    const servers = await startAlike(session, SERVERS);
    if (options.quick) await warmUp(session, servers, options);
    const results: Result[] = [];
    for (const operation of session.operations.filter((operation) => isWanted(operation, options))) {
      progress(`Measuring: ${operation.title} …`);
      results.push(await measure(session.database, servers, operation, options));
    }
    process.stdout.write(`${table(results)}\n\n${targetTable(results)}\n`);
    if (options.forms < 1_000_000) progress("The targets are for a million forms.");
    const { forms, rounds, seconds, connections } = options;
    await saveResults(options.name, { forms, rounds, seconds, connections, results });
    const drawn = options.plot && plot(results, connections);
    if (drawn) await writeFile(join(benchFolder(), "latency.svg"), drawn);
  });
}

/** The servers, started, and found to answer with the same bytes and to write the same rows. */
export async function startAlike(session: Session, names: readonly ServerName[]): Promise<Server[]> {
  const servers: Server[] = [];
  for (const name of names) servers.push(await session.start(name));
  const { client } = session.database;
  const reads = await compareReads(servers, session.operations);
  const undo = await markWrites(client);
  for (const request of operation(session, "create").requests.slice(0, 2)) {
    await compareCreates(servers, client, request);
  }
  await undo();
  progress(`${names.join(", ")} answer ${reads} reads with the same bytes, and write the same rows.`);
  return servers;
}

/** Where rounds are too short to have a warm-up each. */
async function warmUp({ database, operations }: Session, servers: Server[], { connections }: Options) {
  const requests = operations.flatMap(({ requests, writes }) => (writes ? [] : requests.slice(0, 20)));
  for (const server of servers) await turn(database, server, { requests }, { connections, seconds: 3 });
}

function isWanted({ id }: Operation, { only, quick }: Options): boolean {
  // Those between the ends of the plot are not worth a short run's time.
  if (only.length === 0) return !(quick && id.startsWith("page-"));
  return only.some((beginning) => id.startsWith(beginning));
}
