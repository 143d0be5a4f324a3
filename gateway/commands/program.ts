import { createRequire } from "node:module";
import { Command } from "commander";
import { addDev } from "./dev.js";
import { addDoctor } from "./doctor.js";
import { addForms } from "./forms.js";
import { notes } from "./help.js";
import { addKeys } from "./keys.js";
import { addListings } from "./listings.js";
import { addMembers } from "./members.js";
import { addMigrate } from "./migrate.js";
import { addNotifications } from "./notifications.js";
import { addPeople } from "./people.js";
import { addServe } from "./serve.js";
import { addTrace } from "./trace.js";
import { addUsers } from "./users.js";
import { addWorker } from "./worker.js";

/** The command line. What a command does is loaded when it runs: help and wrong usage answer at once. */
export function buildProgram(): Command {
  const { version, description } = createRequire(import.meta.url)("guest-forms/package.json");
  const program = new Command("guest-forms")
    .description(description)
    .version(version, "--version", "print the version")
    .helpOption("-h, --help", "explain the command and its options")
    .exitOverride()
    // What follows a command is the command's: `notifications` and `notifications retry` both take --json.
    .enablePositionalOptions()
    // cli.ts prints errors.
    .configureOutput({ outputError: () => {} })
    .showSuggestionAfterError(false)
    .addHelpText(
      "after",
      notes(`
Each command explains itself: guest-forms keys issue --help

Exit codes: 0 fine; 2 wrong usage; 1 anything else. With --json a failure is {"error": {"code", "message", "errors"}} on
standard output, and its message also a line on standard error.`),
    );
  addDev(program);
  addServe(program);
  addWorker(program);
  addMigrate(program);
  addDoctor(program);
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
