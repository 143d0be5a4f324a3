#!/usr/bin/env node
import { CommanderError } from "commander";
import { buildProgram, describeUsage } from "./commands/program.js";
import { printLine, toJson } from "./runtime/terminal.js";

const USAGE_EXIT_CODE = 2;

/** Runs the command line and returns the exit code. */
async function main(): Promise<number> {
  const program = buildProgram();
  try {
    await program.parseAsync();
    return Number(process.exitCode ?? 0);
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return 0;
      const message = describeUsage(program, process.argv.slice(2), error);
      report({ code: "USAGE_ERROR", message: message ?? "A subcommand is missing: add --help to list them." }, message);
      return USAGE_EXIT_CODE;
    }
    const [{ explain }, { flushLogs }] = await Promise.all([import("./cli/failure.js"), import("./runtime/log.js")]);
    // The error comes after the lines of the log that led to it.
    await flushLogs();
    const { message, exitCode, details } = explain(error);
    report({ code: "COMMAND_FAILED", message, ...details }, message);
    return exitCode;
  }
}

/** Prints an error: `text` to standard error and, with --json, `error` to standard output. */
function report(error: { code: string; message: string }, text: string | undefined): void {
  if (process.argv.includes("--json")) printLine(process.stdout, toJson({ error }));
  if (text) printLine(process.stderr, text.replace(/^/gm, "error: "));
}

// Ignore a closed pipe (`| head`) or terminal.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
  });
}

const exitCode = await main();
await new Promise((flushed) => process.stdout.write("", flushed));
process.exit(exitCode);
