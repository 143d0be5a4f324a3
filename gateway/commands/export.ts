import { type Command, InvalidArgumentError, Option } from "commander";
import { addDataCommand } from "../cli/data-command.js";
import { FORMATS, type Format, formatOf } from "../rows/format.js";

interface ExportOptions {
  format?: Format;
  output?: string;
}

export const addExport = (program: Command): Command =>
  addDataCommand(program, "export", {
    description: "write all users, listings and memberships in the format of import",
    options: [
      new Option("--format <format>", "format of the file (default: the extension of --output, or csv)").choices(
        FORMATS,
      ),
      new Option("--output <file>", "file to write, readable only by you (default: standard output)"),
    ],
    help: `
An import of the file into the same database changes nothing. An import into another database creates what it lacks.
--json prints the number of rows, and requires --output.

Example:
  guest-forms export --output hosts.csv`,
    check({ json, output }: ExportOptions & { json?: true }) {
      if (json && output === undefined) throw new InvalidArgumentError("--json requires --output.");
    },
    call: async (core, { format, output }: ExportOptions) => {
      const { exportFile } = await import("./actions/export.js");
      return exportFile(core, { format: format ?? formatOf(output ?? "") ?? "csv", output });
    },
    text: ({ users, listings, memberships }, { output }) =>
      output === undefined ? undefined : `Wrote ${users} users, ${listings} listings and ${memberships} memberships.`,
  });
