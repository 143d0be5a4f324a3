import { Command, type CommanderError } from "commander";
import { notes } from "../cli/help.js";
import { PACKAGE } from "../process/package.js";
import { addDoctor } from "./doctor.js";
import { addEmails } from "./emails.js";
import { addForms } from "./forms.js";
import { exportCommand, importCommand } from "./import-export.js";
import { addKeys } from "./keys.js";
import { addListings } from "./listings.js";
import { addMembers } from "./members.js";
import { addMigrate } from "./migrate.js";
import { addPeople } from "./people.js";
import { addSecrets } from "./secrets.js";
import { addDev, addServe, addWorker } from "./serve.js";
import { trace } from "./trace.js";
import { addUsers } from "./users.js";
import { addWebhooks } from "./webhooks.js";

/** Builds the command line. Commands load their action when they run, which keeps help and usage errors fast. */
export function buildProgram(): Command {
  const program = new Command("guest-forms")
    .description(PACKAGE.description)
    .version(PACKAGE.version, "--version", "print the version")
    .helpOption("-h, --help", "print help for the command")
    .exitOverride()
    // An option after a subcommand belongs to the subcommand.
    .enablePositionalOptions()
    // main.ts prints errors.
    .configureOutput({ outputError: () => {} })
    .addHelpText(
      "after",
      notes(`
For help on a command, add --help: guest-forms keys issue --help

Exit codes: 0 success, 2 usage error, 1 any other error. With --json, an error is printed as
{"error": {"code", "message", "errors"}} to standard output, and its message to standard error.`),
    );
  addDev(program);
  addServe(program);
  addWorker(program);
  addMigrate(program);
  addDoctor(program);
  addUsers(program);
  addListings(program);
  addMembers(program);
  importCommand(program, "import");
  exportCommand(program, "export");
  addKeys(program);
  addForms(program);
  addEmails(program);
  addWebhooks(program);
  addPeople(program);
  addSecrets(program);
  trace(program, "trace");
  return program;
}

/** One line about a usage error, with commander's suggestion for a typo. Undefined if help was shown instead. */
export function describeUsage(program: Command, args: string[], error: CommanderError): string | undefined {
  if (error.code === "commander.help") return undefined;
  const message = error.message.replace(/^error: /, "").replace("\n", " ");
  if (!/^unknown (command|option) '.+'$/.test(message)) return message;
  let command = program;
  for (const word of args) command = command.commands.find((subcommand) => subcommand.name() === word) ?? command;
  return `${message}: see ${commandPath(command)} --help`;
}

const commandPath = (command: Command): string =>
  command.parent ? `${commandPath(command.parent)} ${command.name()}` : command.name();
