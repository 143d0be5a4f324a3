#!/usr/bin/env node
import { CommanderError } from "commander";
import { buildProgram } from "./commands/program.js";
import { describeUsage } from "./commands/usage.js";

const USAGE = 2;

/** Runs the command line and gives the exit code. */
async function main(): Promise<number> {
  const program = buildProgram();
  try {
    await program.parseAsync();
    return Number(process.exitCode ?? 0);
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return 0;
      const message = describeUsage(program, process.argv.slice(2), error);
      report({ code: "USAGE_ERROR", message: message ?? "A subcommand is missing: see the help." }, message);
      return USAGE;
    }
    const { explain } = await import("./commands/failure.js");
    const { message, exitCode, details } = explain(error);
    report({ code: "COMMAND_FAILED", message, ...details }, message);
    return exitCode;
  }
}

/** Prints a failure: with --json as a value on standard output, and in any case `text`, a line for people. */
function report(error: { code: string; message: string }, text: string | undefined): void {
  if (process.argv.includes("--json")) process.stdout.write(`${JSON.stringify({ error })}\n`);
  if (text) process.stderr.write(text.replace(/^/gm, "error: ").concat("\n"));
}

// A reader that went away, as `| head` does, or a terminal that was closed, is no failure.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
  });
}

const exitCode = await main();
await new Promise((written) => process.stdout.write("", written));
process.exit(exitCode);
