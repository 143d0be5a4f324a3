import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../../prisma/package-root.js";
import { dataFolder } from "./database.js";
import { runTurn } from "./measure.js";
import type { Options } from "./options.js";
import { progress } from "./progress.js";
import { markdownTable } from "./report.js";
import { findOperation, withSession } from "./session.js";

const OPERATIONS = ["fetch-form", "list-10", "create"];
const TOP_FUNCTIONS = 15;
const WARM_UP_SECONDS = 5;

/** Prints the service's functions by self time, after a warm-up. */
export async function profileService(options: Options): Promise<void> {
  await withSession(options.forms, async (session) => {
    for (const id of options.only.length > 0 ? options.only : OPERATIONS) {
      progress(`Profiling: ${id} …`);
      const folder = join(dataFolder(), "profiles", id);
      await rm(folder, { recursive: true, force: true });
      await mkdir(folder, { recursive: true });
      const service = await session.start("service", {
        nodeArgs: ["--cpu-prof", `--cpu-prof-dir=${folder}`],
      });
      await runTurn(session.database, service, findOperation(session, id), {
        connections: options.connections,
        seconds: WARM_UP_SECONDS + options.seconds,
      });
      await service.stop();
      const [file = ""] = await readdir(folder);
      const recorded = JSON.parse(await readFile(join(folder, file), "utf8")) as CpuProfile;
      process.stdout.write(`${id}\n\n${markdownTable(hottestFunctions(recorded))}\n\n`);
    }
  });
}

/** V8's CPU profile; times in microseconds. */
interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[];
  startTime: number;
  samples: number[];
  timeDeltas: number[];
}

function hottestFunctions({ nodes, startTime, samples, timeDeltas }: CpuProfile): string[][] {
  const places = new Map(nodes.map(({ id, callFrame }) => [id, placeOf(callFrame)]));
  const times = new Map<string, number>();
  let now = startTime;
  let total = 0;
  for (const [index, sample] of samples.entries()) {
    const took = timeDeltas[index] ?? 0;
    now += took;
    const place = places.get(sample) ?? "";
    if (now - startTime < WARM_UP_SECONDS * 1e6 || place === "(idle)") continue;
    times.set(place, (times.get(place) ?? 0) + took);
    total += took;
  }
  const rows = [...times].toSorted(([, a], [, b]) => b - a).slice(0, TOP_FUNCTIONS);
  return [
    ["function", "", "self %"],
    ...rows.map(([place, took]) => [...split(place), ((took / total) * 100).toFixed(1)]),
  ];
}

const split = (place: string): [string, string] => {
  const [name = "", where = ""] = place.split("\t");
  return [name, where];
};

function placeOf({ functionName, url, lineNumber }: CpuProfile["nodes"][number]["callFrame"]): string {
  const name = functionName || "(anonymous)";
  if (!url) return name;
  const file = url.startsWith("file:") ? relative(packageRoot(), fileURLToPath(url)) : url;
  return `${name}\t${file.replace(/^.*node_modules\//, "")}:${lineNumber + 1}`;
}
