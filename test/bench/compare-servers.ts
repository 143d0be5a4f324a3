import { checkSameCreates, checkSameReads } from "./check-equivalence.js";
import { measure, type Result, runTurn } from "./measure.js";
import type { Operation } from "./operation.js";
import type { Options } from "./options.js";
import { progress } from "./progress.js";
import { resultTable } from "./report.js";
import { saveResults } from "./results.js";
import { SERVERS, type Server, type ServerName } from "./servers.js";
import { findOperation, type Session, withSession } from "./session.js";
import { missedTargets } from "./targets.js";
import { prepareUndo } from "./undo-writes.js";

/**
 * Checks that the service and its peers return the same bytes, then measures every operation in interleaved rounds. Returns
 * whether the targets are met.
 */
export function compareServers(options: Options): Promise<boolean> {
  return withSession(options.forms, async (session) => {
    const servers = await startEquivalentServers(session, SERVERS);
    if (options.quick) await warmUp(session, servers, options);
    const results: Result[] = [];
    for (const operation of session.operations.filter((operation) => isSelected(operation, options))) {
      progress(`Measuring: ${operation.title} …`);
      results.push(await measure(session.database, servers, operation, options));
    }
    const { forms, rounds, seconds, connections } = options;
    await saveResults(options.name, { forms, rounds, seconds, connections, results });
    process.stdout.write(`${resultTable(results)}\n`);
    return reportTargets(results, options);
  });
}

/** Returns false if a target is missed. A short run only reports it: the targets are for a million forms and many rounds. */
export function reportTargets(
  results: readonly Result[],
  { forms, quick }: Pick<Options, "forms" | "quick">,
): boolean {
  const missed = missedTargets(results);
  process.stdout.write(missed ? `\n${missed}\n` : "\nAll targets are met.\n");
  const isShort = quick || forms < 1_000_000;
  if (isShort) progress("The targets are for a million forms.");
  return isShort || !missed;
}

/** Starts the servers, and checks that they return the same bytes and write equivalent rows. */
export async function startEquivalentServers(
  session: Session,
  names: readonly ServerName[],
): Promise<Server[]> {
  const servers: Server[] = [];
  for (const name of names) servers.push(await session.start(name));
  const { client } = session.database;
  const reads = await checkSameReads(servers, session.operations);
  const undo = await prepareUndo(client);
  for (const request of findOperation(session, "create").requests.slice(0, 2)) {
    await checkSameCreates(servers, client, request);
  }
  await undo();
  progress(`${names.join(", ")} return the same bytes for ${reads} reads and write equivalent rows.`);
  return servers;
}

/** Warms up all servers once, because the rounds of `--quick` are too short for a warm-up each. */
async function warmUp({ database, operations }: Session, servers: Server[], { connections }: Options) {
  const requests = operations.flatMap(({ requests, writes }) => (writes ? [] : requests.slice(0, 20)));
  for (const server of servers) await runTurn(database, server, { requests }, { connections, seconds: 3 });
}

const isSelected = ({ id }: Operation, { only }: Options): boolean =>
  only.length === 0 || only.some((prefix) => id.startsWith(prefix));
