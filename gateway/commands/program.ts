import type { Command, CommanderError } from "commander";
import { CommandWithIds } from "../cli/command-with-ids.js";
import { notes } from "../cli/help.js";
import { PACKAGE } from "../runtime/package.js";
import { doctor } from "./doctor.js";
import { emails } from "./emails.js";
import { find } from "./find.js";
import { forms } from "./forms.js";
import { exportCommand, importCommand } from "./import-export.js";
import { keys } from "./keys.js";
import { listings } from "./listings.js";
import { members } from "./members.js";
import { migrate } from "./migrate.js";
import { people } from "./people.js";
import { secrets } from "./secrets.js";
import { dev, serve, worker } from "./serve.js";
import { trace } from "./trace.js";
import { users } from "./users.js";
import { webhooks } from "./webhooks.js";

/** In the order of the help. */
const COMMANDS = {
  dev,
  serve,
  worker,
  migrate,
  doctor,
  find,
  users,
  listings,
  members,
  import: importCommand,
  export: exportCommand,
  keys,
  forms,
  emails,
  webhooks,
  people,
  secrets,
  trace,
};

/** Builds the command line. Commands load their action when they run, which keeps help and usage errors fast. */
export function buildProgram(): Command {
  const program = new CommandWithIds("guest-forms")
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
  for (const [name, add] of Object.entries(COMMANDS)) add(program, name);
  return program;
}

/** One line about a usage error, with commander's suggestion for a typo. Undefined if help was shown instead. */
export function describeUsage(program: Command, args: string[], error: CommanderError): string | undefined {
  if (error.code === "commander.help") return undefined;
  const message = error.message.replace(/^error: /, "").replace("\n", " ");
  if (!/^unknown (command|option) '.+'$/.test(message)) return message;
  let command = program;
  for (const word of args) command = command.commands.find((subcommand) => subcommand.name() === word) ?? command;
  const path = commandPath(command);
  // Of the options, only -h is short: others are rather values.
  const [, value] = /^unknown option '(-[^-].*)'$/.exec(message) ?? [];
  const isArgument = value !== undefined && command.registeredArguments.length > 0;
  return `${message}: see ${path} --help${isArgument ? `, or put -- before a value: ${path} -- ${value}` : ""}`;
}

const commandPath = (command: Command): string =>
  command.parent ? `${commandPath(command.parent)} ${command.name()}` : command.name();
