import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { makeTempFolder, runTool } from "../support/run-tool.js";

export const CONNECTIONS = 400;

export interface AttackResult {
  /** Second of the attack at which the last connection was opened. */
  openedSecond: number;
  /** Most connections open at the same time. */
  maxOpen: number;
  /** Second of the attack at which the last connection was closed. */
  closedSecond: number;
  /** slowhttptest's reason to exit. */
  exitStatus: string;
}

/** Opens all connections within about a second, then sends a few bytes on each per second. */
export async function runAttack(url: string, args: string[]): Promise<AttackResult> {
  const report = join(await makeTempFolder("slow"), "report");
  const limits = ["-c", `${CONNECTIONS}`, "-r", `${CONNECTIONS}`, "-i", "1", "-x", "4", "-l", "40"];
  const output = await runTool(
    "slowhttptest",
    [...args, ...limits, "-u", url, "-g", "-o", report, "-v", "1"],
    60,
  );
  const rows = (await readFile(`${report}.csv`, "utf8"))
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => line.split(",").map(Number));
  const connected = rows.map(([second = 0, closed = 0, , open = 0]) => ({ second, closed, open }));
  const maxOpen = Math.max(...connected.map(({ open }) => open));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: removes the color codes that slowhttptest prints.
  const plainOutput = output.replace(/\x1b\[[\d;]*[A-Za-z]/g, "");
  const closedSecond = Number(/Test ended on (\d+)\w+ second/.exec(plainOutput)?.[1]);
  const allOpened = connected.find(({ closed, open }) => closed + open >= CONNECTIONS);
  const lastSecond = connected.at(-1)?.second ?? 0;
  // The report has no row for the second in which the attack ends.
  if (!allOpened && !(closedSecond <= lastSecond + 1))
    throw new Error(`slowhttptest did not open all connections:\n${plainOutput.slice(-2_000)}`);
  return {
    maxOpen,
    openedSecond: allOpened?.second ?? closedSecond,
    closedSecond,
    exitStatus: /Exit status: *(.+)/.exec(plainOutput)?.[1]?.trim() ?? plainOutput.slice(-500),
  };
}
