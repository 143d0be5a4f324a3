import { type Command, InvalidArgumentError, Option } from "commander";
import { FORMATS, type Format, formatOf } from "../rows/format.js";
import { notes } from "./help.js";
import { addDataCommand, callCore } from "./run.js";

interface ExportOptions {
  format?: Format;
  output?: string;
  json?: true;
}

export function addExport(program: Command): void {
  addDataCommand(program, "export")
    .description("write all users, listings and memberships in the format of import")
    .addOption(
      new Option(
        "--format <format>",
        "format of the file (default: the extension of --output, or csv)",
      ).choices(FORMATS),
    )
    .option("--output <file>", "file to write, readable only by you (default: standard output)")
    .addHelpText(
      "after",
      notes(`
An import of the file into the same database changes nothing. An import into another database creates what it lacks.
--json prints the number of rows, and requires --output.

Example:
  guest-forms export --output hosts.csv`),
    )
    .action(({ format, output, json }: ExportOptions, command: Command) => {
      if (json && output === undefined) throw new InvalidArgumentError("--json requires --output.");
      return callCore(command, {
        call: async (core) => {
          const { exportFile } = await import("./export-action.js");
          return exportFile(core, { format: format ?? formatOf(output ?? "") ?? "csv", output });
        },
        text: ({ users, listings, memberships }) =>
          output === undefined
            ? undefined
            : `Wrote ${users} users, ${listings} listings and ${memberships} memberships.`,
      });
    });
}
