#!/usr/bin/env node
import { createRequire } from "node:module";
import { Command, CommanderError } from "commander";
import { addDev } from "./commands/dev.js";
import { addForms } from "./commands/forms.js";
import { addKeys } from "./commands/keys.js";
import { addListings } from "./commands/listings.js";
import { addMembers } from "./commands/members.js";
import { addMigrate } from "./commands/migrate.js";
import { addNotifications } from "./commands/notifications.js";
import { addPeople } from "./commands/people.js";
import { addServe } from "./commands/serve.js";
import { addTrace } from "./commands/trace.js";
import { addUsers } from "./commands/users.js";
import { addWorker } from "./commands/worker.js";

const USAGE = 2;

// What a command does is loaded when it runs: help and wrong usage answer at once.
function build(): Command {
  const { version, description } = createRequire(import.meta.url)("guest-forms/package.json");
  const program = new Command("guest-forms")
    .description(description)
    .version(version, "--version", "print the version")
    .helpOption("-h, --help", "explain the command and its options")
    .exitOverride()
    // What follows a command is the command's: `notifications` and `notifications retry` both take --json.
    .enablePositionalOptions()
    .configureOutput({
      // The suggestion of what was meant comes on a line of its own.
      outputError: (text, write) => write(text.replace(/\n(?=\()/, " ")),
    })
    .addHelpText(
      "after",
      `
Each command explains itself: guest-forms keys issue --help
Exit codes: 0 fine; 2 wrong usage; 1 anything else.`,
    );
  addDev(program);
  addServe(program);
  addWorker(program);
  addMigrate(program);
  addUsers(program);
  addListings(program);
  addMembers(program);
  addKeys(program);
  addForms(program);
  addNotifications(program);
  addPeople(program);
  addTrace(program);
  return program;
}

/** Runs the command line and gives the exit code. */
async function main(): Promise<number> {
  try {
    await build().parseAsync();
    return 0;
  } catch (error) {
    // Commander has said what is wrong, or shown the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE;
    const { explain } = await import("./commands/failure.js");
    const { message, exitCode } = explain(error);
    process.stderr.write(message.replace(/^/gm, "error: ").concat("\n"));
    return exitCode;
  }
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
