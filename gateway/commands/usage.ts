import type { Command, CommanderError } from "commander";
import { nearest } from "./nearest.js";

/** One line about wrong usage, with what was meant if it is a typing error; undefined if the help was shown instead. */
export function describeUsage(program: Command, args: string[], error: CommanderError): string | undefined {
  if (error.code === "commander.help") return undefined;
  const message = error.message.replace(/^error: /, "");
  const wrong = /^unknown (?:command|option) '(.+)'$/.exec(message)?.[1];
  if (wrong === undefined) return message;
  const command = addressed(program, args);
  const names = wrong.startsWith("-")
    ? command
        .createHelp()
        .visibleOptions(command)
        .map(({ long }) => long ?? "")
    : command.commands.map((subcommand) => subcommand.name());
  const meant = nearest(wrong, names);
  return meant ? `${message} (Did you mean ${meant}?)` : `${message}: see ${pathOf(command)} --help`;
}

/** The command that the words lead to. */
function addressed(program: Command, args: string[]): Command {
  let command = program;
  for (const word of args) {
    command = command.commands.find((subcommand) => subcommand.name() === word) ?? command;
  }
  return command;
}

const pathOf = (command: Command): string =>
  command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
