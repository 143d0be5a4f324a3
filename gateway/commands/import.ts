import { type Command, InvalidArgumentError, Option } from "commander";
import { FORMATS, type Format, formatOf } from "../rows/format.js";
import { notes } from "./help.js";
import type { ImportSummary } from "./import-action.js";
import { formatTable } from "./print.js";
import { addDataCommand, callCore } from "./run.js";

interface ImportOptions {
  format?: Format;
  dryRun?: boolean;
}

export function addImport(program: Command): void {
  addDataCommand(program, "import <file>")
    .description("create and update users, listings and memberships from a file")
    .addOption(
      new Option("--format <format>", "format of the file (default: its extension)").choices(FORMATS),
    )
    .option("--dry-run", "check the file and count what an import would do, but write nothing")
    .addHelpText(
      "after",
      notes(`
The file is CSV with a header, or NDJSON (one JSON object per line), in UTF-8. Use - for standard input. Each row has a
type, which decides its other fields:

  user        externalId, email, name
  listing     externalId, title, address, city, country, zipCode, timezone,
              district, active, maxPeopleInListing, maxVehicles, allowPets
  membership  listing (externalId or id), role (OWNER, WRITER or READER),
              user (externalId, id or email address)

If any row is invalid, nothing is written and every error is printed with its line. An import can be run again: rows
that exist are updated if they differ. Nothing is deleted.

Example:
  guest-forms import hosts.csv --dry-run`),
    )
    .action((file: string, { format = formatOf(file), dryRun = false }: ImportOptions, command: Command) => {
      if (!format) throw new InvalidArgumentError("The file is neither .csv nor .ndjson: add --format.");
      return callCore(command, {
        call: async (core) => {
          const { importFile } = await import("./import-action.js");
          return importFile(core, file, { format, dryRun });
        },
        text: formatSummary,
      });
    });
}

function formatSummary({ dryRun, ...counts }: ImportSummary): string {
  const rows = Object.entries(counts).map(([type, counted]) => ({ type, ...counted }));
  const table = formatTable(rows, ["type", "created", "updated", "unchanged"], "");
  return dryRun ? `${table}\n\nThis was a dry run: nothing was written.` : table;
}
