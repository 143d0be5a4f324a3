import type { Command, CommanderError } from "commander";

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
