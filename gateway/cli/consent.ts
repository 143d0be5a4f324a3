import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import { printable } from "../runtime/terminal.js";
import { print } from "./print.js";

/** What a command will do. */
export interface Consequences<Input> {
  text: string;
  /** It cannot be undone, or hurts somebody: it is done only with consent. */
  isDangerous: boolean;
  /** Input that limits the call to what the text says. */
  limits?: Partial<Input>;
}

export const addConsentOptions = (command: Command): Command =>
  command
    .option("--dry-run", "say what would happen, and change nothing")
    .option("--yes", "do not ask before something dangerous");

/**
 * Returns the input to go on with: asks if it is dangerous, unless --yes was given. Returns undefined after a dry run. Throws a
 * CommandFailure if the answer is no, or if nobody can be asked.
 */
export async function askConsent<Input>(
  command: Command,
  input: Input,
  consider: (input: Input) => Promise<Consequences<Input>>,
): Promise<Input | undefined> {
  const { dryRun, yes } = command.opts();
  if (yes && !dryRun) return input;
  const { text, isDangerous, limits } = await consider(input);
  if (dryRun) {
    print(command, { dryRun: true, consequences: text }, `${text}\n\nThis was a dry run: nothing was changed.`);
    return undefined;
  }
  const limited = { ...input, ...limits };
  if (!isDangerous) return limited;
  const { CommandFailure } = await import("./failure.js");
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    const message = `${text} Nothing was changed: give --yes to do it.`;
    throw new CommandFailure(message, 2, { code: "USAGE_ERROR" });
  }
  if (await ask(text)) return limited;
  throw new CommandFailure("Nothing was changed.");
}

async function ask(text: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await terminal.question(`${printable(text)}\nGo on? [y/N] `)).trim());
  } finally {
    terminal.close();
  }
}
