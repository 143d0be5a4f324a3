import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startAlike } from "./compare-servers.js";
import { turn } from "./measure.js";
import type { Options } from "./options.js";
import { progress } from "./progress.js";
import { markdown } from "./report.js";
import { benchFolder } from "./results.js";
import type { Server } from "./servers.js";
import { operation, type Session, withSession } from "./session.js";

/** Processor time a request, of the server's process and of Postgres; or of the service as multiples of L's. */
interface Ratios {
  cpu: number;
  postgresCpu: number;
}

type Recorded = Record<string, Ratios>;

const OPERATIONS = ["fetch-form", "list-10", "list-1000", "list-new", "create"];
/** V8 has compiled what is hot after some thousands of requests; a busy machine gets a few turns more for them. */
const WARM_REQUESTS = 5_000;
const MAX_WARM_TURNS = 8;
/** Of a second each. */
const ROUNDS = 4;
/** How far a ratio may exceed the recorded one: less is noise. */
const MARGIN = 1.5;

const file = () => join(benchFolder(), "recorded.json");

/**
 * Compares the ratios with those that were recorded, and fails where one has grown by half: ratios of processor time
 * within one run are alike on any machine, busy or not. An operation that fails gets a second chance.
 */
export async function check(options: Options): Promise<void> {
  await withSession(options.forms, async (session) => {
    const servers = await startAlike(session, ["service", "L"]);
    if (options.record) return record(session, servers, options);
    const recorded = JSON.parse(await readFile(file(), "utf8")) as Recorded;
    const rows: string[][] = [];
    for (const id of OPERATIONS) {
      const limit = recorded[id];
      if (!limit) throw new Error(`${file()} has no ${id}: run with --record.`);
      const within = ({ cpu, postgresCpu }: Ratios) =>
        cpu <= limit.cpu * MARGIN && postgresCpu <= limit.postgresCpu * MARGIN;
      let found = await ratios(session, servers, id, options);
      if (!within(found)) found = await ratios(session, servers, id, options);
      if (!within(found)) process.exitCode = 1;
      rows.push([id, within(found) ? "ok" : "GROWN", ...cells(found, limit)]);
    }
    const head = ["operation", "", "CPU to L", "recorded", "Postgres CPU to L", "recorded"];
    process.stdout.write(`${markdown([head, ...rows])}\n`);
  });
}

const cells = (found: Ratios, limit: Ratios) =>
  [found.cpu, limit.cpu, found.postgresCpu, limit.postgresCpu].map((ratio) => ratio.toFixed(2));

async function record(session: Session, servers: Server[], options: Options): Promise<void> {
  const recorded: Recorded = {};
  for (const id of OPERATIONS) recorded[id] = await ratios(session, servers, id, options);
  await writeFile(file(), `${JSON.stringify(recorded, null, 2)}\n`);
  progress(`Recorded in ${file()}.`);
}

async function ratios(session: Session, servers: Server[], id: string, options: Options): Promise<Ratios> {
  progress(`Measuring: ${id} …`);
  const [service, L] = await lowest(session, servers, id, options);
  if (!service || !L) throw new Error("Both were measured.");
  const to = (one: number, other: number) => Number((one / other).toFixed(2));
  return { cpu: to(service.cpu, L.cpu), postgresCpu: to(service.postgresCpu, L.postgresCpu) };
}

/** Each server's lowest processor time a request: what else the machine does can only add to it. */
async function lowest(
  session: Session,
  servers: Server[],
  id: string,
  { connections }: Options,
): Promise<Ratios[]> {
  const { database } = session;
  const load = operation(session, id);
  for (const server of servers) {
    for (let sent = 0, turns = 0; sent < WARM_REQUESTS && turns < MAX_WARM_TURNS; turns++) {
      sent += (await turn(database, server, load, { connections, seconds: 1 })).requestsPerSecond;
    }
  }
  const found = servers.map(() => ({ cpu: Number.POSITIVE_INFINITY, postgresCpu: Number.POSITIVE_INFINITY }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [index, best] of found.entries()) {
      const server = servers[index] as Server;
      const { cpu, postgresCpu } = await turn(database, server, load, { connections, seconds: 1 });
      best.cpu = Math.min(best.cpu, cpu);
      best.postgresCpu = Math.min(best.postgresCpu, postgresCpu ?? 1);
    }
  }
  return found;
}
