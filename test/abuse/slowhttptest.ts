import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ownFolder, runTool } from "./tool.js";

export const CONNECTIONS = 400;

export interface Attack {
  /** Second of the attack at which all connections stood. */
  full: number;
  /** Most that stood at once. */
  most: number;
  /** The first second, counted from the first connection, at which none stood any more. */
  over: number;
  /** Why the tool ended. */
  ending: string;
}

/** Opens all connections within about a second, and drips a few bytes into each every second. */
export async function attack(url: string, args: string[]): Promise<Attack> {
  const report = join(await ownFolder("slow"), "report");
  const bounds = ["-c", `${CONNECTIONS}`, "-r", `${CONNECTIONS}`, "-i", "1", "-x", "4", "-l", "40"];
  const said = await runTool(
    "slowhttptest",
    [...args, ...bounds, "-u", url, "-g", "-o", report, "-v", "1"],
    60,
  );
  const rows = (await readFile(`${report}.csv`, "utf8"))
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => line.split(",").map(Number));
  const connected = rows.map(([second = 0, , , open = 0]) => ({ second, open }));
  const most = Math.max(...connected.map(({ open }) => open));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the tool colors its words even into a pipe, and the escape is what is taken out.
  const words = said.replace(/\x1b\[[\d;]*[A-Za-z]/g, "");
  return {
    most,
    full: connected.find(({ open }) => open === most)?.second ?? Number.NaN,
    over: Number(/Test ended on (\d+)\w+ second/.exec(words)?.[1]),
    ending: /Exit status: *(.+)/.exec(words)?.[1]?.trim() ?? words.slice(-500),
  };
}
