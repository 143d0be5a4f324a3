import { mkdir, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

export const benchFolder = () => join(packageRoot(), "test/bench");

/** Writes results and a description of the machine to `results/NAME.json`. */
export async function saveResults(name: string, measured: object): Promise<void> {
  const folder = join(benchFolder(), "results");
  await mkdir(folder, { recursive: true });
  const machine = { processor: cpus()[0]?.model, cores: cpus().length, node: process.version };
  await writeFile(join(folder, `${name}.json`), `${JSON.stringify({ machine, ...measured }, null, 2)}\n`);
}
