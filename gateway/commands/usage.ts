import type { Command, CommanderError } from "commander";
import { closestMatch } from "./closest-match.js";

/** One line about a usage error, with a suggestion for a typo. Undefined if help was shown instead. */
export function describeUsage(program: Command, args: string[], error: CommanderError): string | undefined {
  if (error.code === "commander.help") return undefined;
  const message = error.message.replace(/^error: /, "");
  const unknown = /^unknown (?:command|option) '(.+)'$/.exec(message)?.[1];
  if (unknown === undefined) return message;
  const command = findCommand(program, args);
  const names = unknown.startsWith("-")
    ? command
        .createHelp()
        .visibleOptions(command)
        .map(({ long }) => long ?? "")
    : command.commands.map((subcommand) => subcommand.name());
  const suggestion = closestMatch(unknown, names);
  return suggestion
    ? `${message} (Did you mean ${suggestion}?)`
    : `${message}: see ${commandPath(command)} --help`;
}

function findCommand(program: Command, args: string[]): Command {
  let command = program;
  for (const word of args) {
    command = command.commands.find((subcommand) => subcommand.name() === word) ?? command;
  }
  return command;
}

const commandPath = (command: Command): string =>
  command.parent ? `${commandPath(command.parent)} ${command.name()}` : command.name();
